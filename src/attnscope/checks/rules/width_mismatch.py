"""AS105: widths, head counts or masks do not fit one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.calls.source import Source
    from attnscope.checks.crashes.explaining import Explained
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_MOST_SHOWN = 6


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.crashes.explaining import PADDING, explained
    from attnscope.checks.scoring.leftover import left_over

    if subject.crash is not None:
        found = explained(subject)
        if found is not None and found.kind != PADDING:  # which is AS211's
            seen = ", ".join(f"{name} {text}" for name, text in found.raised.seen[:_MOST_SHOWN])
            yield RULE.found(
                f"{found.text}" + (f"; there: {seen}" if seen else ""),
                {
                    "kind": found.kind,
                    "raised": found.error,
                    "seen": [f"{name} {text}" for name, text in found.raised.seen],
                    "statement": found.raised.code[:200],
                },
                source=_line(subject, found),
                module="",
                fix=found.fix,
            )
        return
    for left in left_over(subject):
        yield RULE.found(
            f"{len(left.unused)} of the {left.width} features that are projected reach no "
            "head and no output "
            f"(changing them moves nothing): the heads take {left.width - len(left.unused)}",
            {"width": left.width, "unused_features": list(left.unused[:64])},
            source=left.source,
            call=left.call,
        )


def _line(subject: Subject, found: Explained) -> Source:
    """Return the line that raised, or that builds one layer of several with a width that misfits.

    The others of its class, which run the same lines, are given what they were built for.
    """
    from attnscope.checks.masking.sharing import line_of_building

    owner, model, line = found.raised.owner, subject.model, found.raised.source
    if found.kind != "projection-width" or owner is None or model is None:
        return line
    alike = [path for path, each in model.named_modules() if type(each) is type(owner)]
    path = next((path for path in alike if subject.module(path) is owner), None)
    return (line_of_building(subject, path) or line) if path and len(alike) > 1 else line


RULE = Rule(
    code="AS105",
    name="width-mismatch",
    severity="error",
    what=(
        "The widths of q and k differ, kv heads are not as many as query heads, a view does not "
        "fit what was projected, a mask does not broadcast over the scores, or heads leave "
        "features of a projection over. Where PyTorch already raised, this is the explanation."
    ),
    why=(
        "Where PyTorch raises, it speaks of mat1, tensor a and dimension 1, far from the heads and "
        "widths that were chosen; where it does not, features that are left over make the model "
        "narrower than its config says, and their parameters never learn."
    ),
    fix=(
        "Let q and k share one head_dim, heads · head_dim be the width that is projected, and "
        "heads · value_dim what the output projection takes; choose heads that divide the width."
    ),
    proof=(
        "Where the forward raised: the author's line, and the shapes of everything named there, as "
        "they stood when it raised. Where it did not: the entries of each projection are numbered "
        "and followed to the heads; those that land nowhere are changed in float64, and no output "
        "moves."
    ),
    limits=(
        "A forward that raises for another reason is not explained: its own message stands. "
        "Features are followed through rearrangements alone, not through rotary embeddings or "
        "norms."
    ),
    sources=(
        "https://github.com/pytorch/pytorch/pull/18334",
        "https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/211",
    ),
    bad="""
import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, width=32, context=20, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, 32)
        self.k = nn.Linear(context, 24)
        self.v = nn.Linear(context, 32)

    def forward(self, x, memory):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in (self.q(x), self.k(memory), self.v(memory))
        )
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


model = CrossAttention().eval()
inputs = {"x": torch.randn(3, 7, 32), "memory": torch.randn(3, 11, 20)}
""",
    good="""
import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, width=32, context=20, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, 32)
        self.k = nn.Linear(context, 32)
        self.v = nn.Linear(context, 32)

    def forward(self, x, memory):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in (self.q(x), self.k(memory), self.v(memory))
        )
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


model = CrossAttention().eval()
inputs = {"x": torch.randn(3, 7, 32), "memory": torch.randn(3, 11, 20)}
""",
    check=_check,
    explains=("AS211", "AS903"),
    on_crash=True,
)  # fmt: skip
