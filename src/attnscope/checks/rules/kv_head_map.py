"""AS104: grouped key/value heads meet the wrong query heads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.checks.scoring.groups import Met
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_MOST_SHOWN = 12


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.recomputed import evidence_of
    from attnscope.checks.scoring.groups import wrong_maps

    for met in wrong_maps(subject):
        yield RULE.found(
            _message(met),
            {
                "side": met.side,
                "kv_head_met": list(met.found),
                "kv_head_expected": list(met.wanted),
                "kv_heads": met.kv_heads,
                "unused_kv_heads": list(met.unused),
                **evidence_of(subject, met.call),
            },
            source=met.source,
            call=met.call,
            severity="note" if _is_numbering(subject, met) else None,
        )


def _is_numbering(subject: Subject, met: Met) -> bool:
    """Return whether a library numbers its heads so, and leaves out none."""
    from attnscope.checks.lines import is_installed
    from attnscope.checks.scoring.reading import is_of_a_library

    library = is_installed(met.source.file) and is_of_a_library(subject, met.call)
    return library and met.side == "k" and not met.unused


def _message(met: Met) -> str:
    shown = [", ".join(map(str, each[:_MOST_SHOWN])) for each in (met.found, met.wanted)]
    tail = (
        f"; kv head {', '.join(map(str, met.unused))} is met by none, although it is computed"
        if met.unused
        else ""
    )
    return (
        f"the {len(met.found)} query heads meet the {met.side} of kv heads {shown[0]}, where "
        "groups of "
        f"{len(met.found) // met.kv_heads} neighbours share one: {shown[1]}{tail}"
    )


RULE = Rule(
    code="AS104",
    name="kv-head-map",
    severity="error",
    what=(
        "In grouped-query attention, query head h belongs to kv head h // group. Here kv heads are "
        "tiled (0, 1, 0, 1) instead of repeated (0, 0, 1, 1), k and v are expanded in different "
        "ways, or a loop picks the wrong one."
    ),
    why=(
        "Loaded checkpoints produce garbage, since every query head was trained with another kv "
        "head. A model that is trained so from the start works, and can't be moved to any kernel "
        "or library afterwards."
    ),
    fix=(
        "Repeat each kv head in place: k.repeat_interleave(group, dim=1) on the axis of heads, or "
        "pass enable_gqa=True to F.scaled_dot_product_attention. In a loop: kv_head = head // "
        "(heads // kv_heads)."
    ),
    proof=(
        "The recorded expansion is followed from the kv heads to the query heads, and copies are "
        "compared entry by entry: the rule fires where query head h did not meet kv head h // "
        "group, heads being numbered as their features lie in the projections of q and k, which "
        "are changed block by block. In a loop of single heads the k that each of them took are "
        "compared, and counted against the kv heads that were computed."
    ),
    limits=(
        "With a single kv head, or as many as query heads, there is nothing to mix up. In the code "
        "of an installed library it is a note: its own weights are trained with its own numbering."
    ),
    sources=(
        "https://arxiv.org/abs/2305.13245",
        "https://github.com/onnx/onnx/pull/7274",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class GroupedAttention(nn.Module):
    def __init__(self, width=32, heads=4, kv_heads=2):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * kv_heads * self.size)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, self.kv_heads, self.size).permute(2, 0, 3, 1, 4)
        k = k.repeat(1, self.heads // self.kv_heads, 1, 1)
        v = v.repeat(1, self.heads // self.kv_heads, 1, 1)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


model = GroupedAttention().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class GroupedAttention(nn.Module):
    def __init__(self, width=32, heads=4, kv_heads=2):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, width // heads
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * kv_heads * self.size)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, self.size).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, self.kv_heads, self.size).permute(2, 0, 3, 1, 4)
        k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
        v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


model = GroupedAttention().eval()
inputs = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
""",
    check=_check,
    explains=("AS105", "AS402", "AS801", "AS903"),
)  # fmt: skip
