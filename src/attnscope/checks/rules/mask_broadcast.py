"""AS211: the mask meets the wrong batch rows or heads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule

if TYPE_CHECKING:
    from attnscope.calls.source import Source
    from attnscope.checks.probes.foreign_masks import ForeignMask
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_TILES = frozenset({"repeat", "tile", "repeat_interleave"})
_MOST_SHOWN = 4


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.foreign_masks import foreign_masks

    for each in foreign_masks(subject):
        call = each.seen.call
        shown = ", ".join(f"sample {b} head {h}" for b, h in each.others[:_MOST_SHOWN])
        more = len(each.others) - _MOST_SHOWN
        yield RULE.found(
            f"the mask of sample {each.changed} is used for others: with its opposite, what {shown}"
            f"{f' and {more} more' if more > 0 else ''} may see changes, while {len(each.own)} of "
            f"{call.heads} heads of sample {each.changed} itself see (in some query) what they saw",
            {
                "changed_sample": each.changed,
                "other_rows": [list(pair) for pair in each.others],
                "own_heads_unmoved": list(each.own),
                "batch": call.batch,
                "heads": call.heads,
            },
            source=_line(each),
            call=call,
        )


def _line(each: ForeignMask) -> Source:
    """Return where the mask is tiled, else where it meets the scores."""
    from attnscope.checks.masking.lines import behind

    hides = (*each.seen.hides, *each.seen.late)
    for hide in hides:
        for operation in reversed(behind(each.seen, hide)):
            if operation.name in _TILES and operation.source is not None:
                return operation.source
    first = next((h.operation.source for h in hides if h.value is not None), None)
    return first or each.seen.call.source


RULE = Rule(
    code="AS211",
    name="mask-broadcast",
    severity="error",
    what=(
        "The mask of one sample meets the scores of another: it is tiled in the wrong order "
        "over heads or beams, or an axis is missing and it broadcasts over heads or queries "
        "because sizes happen to agree."
    ),
    why=(
        "At batch size 1, or with samples of one length, all is right. Else real tokens are "
        "hidden, padding is seen, and each sample's output depends on its batch mates."
    ),
    fix=(
        "Keep all heads of a sample together: mask.repeat_interleave(heads, dim=0) for "
        "(batch*heads, queries, keys) that was folded from (batch, heads, …), as "
        "nn.MultiheadAttention's attn_mask; or keep the axes apart: mask[:, None, None, :] "
        "broadcasts over heads and queries, and nothing else."
    ),
    proof=(
        "What one sample's mask says is turned into its opposite, and the operations that make "
        "the mask are run again: the rule fires where other samples then hide other keys, "
        "while some rows of the sample itself do not."
    ),
    limits=(
        "Needs a batch of two or more, and an input (mask, lengths, padding ids) of which the "
        "mask is made. A bias without any hidden pair is not looked at."
    ),
    sources=(
        "https://github.com/ArrowLuo/CLIP4Clip/issues/22",
        "https://github.com/line/lighthouse/pull/77",
        "https://github.com/lsdefine/attention-is-all-you-need-keras/issues/36",
        "https://github.com/ml-explore/mlx-lm/pull/1903",
    ),
    bad="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x, blocked):
        mask = blocked[:, None, :].expand(-1, x.shape[1], -1)
        mask = mask.repeat(self.heads, 1, 1)
        return self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]


model = Encoder().eval()
lengths = torch.tensor([[6], [3], [4]])
inputs = {"x": torch.randn(3, 6, 32), "blocked": torch.arange(6)[None] >= lengths}
expect = {"padding": "blocked drop"}
""",
    good="""
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x, blocked):
        mask = blocked[:, None, :].expand(-1, x.shape[1], -1)
        mask = mask.repeat_interleave(self.heads, dim=0)
        return self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]


model = Encoder().eval()
lengths = torch.tensor([[6], [3], [4]])
inputs = {"x": torch.randn(3, 6, 32), "blocked": torch.arange(6)[None] >= lengths}
expect = {"padding": "blocked drop"}
""",
    check=_check,
    explains=("AS102", "AS202", "AS203", "AS205", "AS212", "AS305"),
)  # fmt: skip
