"""AS211: the mask meets the wrong batch rows or heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.calls.source import Source
    from attnscope.checks.probes.foreign_masks import ForeignMask
    from attnscope.checks.probes.lone_masks import LoneMask
    from attnscope.checks.structure.by_place import ByPlace
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_MOST_SHOWN = 4


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.foreign_masks import foreign_masks
    from attnscope.checks.probes.lone_masks import lone_masks
    from attnscope.checks.structure.by_place import by_place

    if subject.crash is not None:
        yield from _of_crash(subject)
        return
    yield from _of_earlier_batch(subject)
    told: set[int] = set()
    reasons: list[Skipped] = []
    try:
        for finding in _of_foreign(foreign_masks(subject)):
            told.add(finding.call or 0)
            yield finding
    except Skipped as skipped:
        reasons.append(skipped)
    try:
        yield from (_of_lone(m) for m in lone_masks(subject) if m.seen.call.index not in told)
    except Skipped as skipped:
        reasons.append(skipped)
    try:
        yield from (_of_place(each) for each in by_place(subject) if each.call.index not in told)
    except Skipped as skipped:
        reasons.append(skipped)
    if len(reasons) > 2:
        raise reasons[0]


def _of_crash(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.crashes.explaining import PADDING, explained

    found = explained(subject)
    if found is not None and found.kind == PADDING:
        yield RULE.found(
            found.text,
            {"raised": found.error, "seen": [f"{name} {text}" for name, text in found.raised.seen]},
            source=found.raised.source,
            module="",
            fix=found.fix,
        )


def _of_earlier_batch(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.earlier_batch import earlier_batch

    try:
        found = earlier_batch(subject)
    except Skipped:
        return
    if found is not None and found.part == "mask":
        yield RULE.found(
            f"the mask is that of an earlier batch, kept as {found.name}: after other samples the "
            f"same inputs are masked otherwise, and outputs move by {found.moved:.2g} (noise "
            f"{found.noise:.1g})",
            {"kept_as": found.name, "moved": found.moved, "noise": found.noise},
            source=found.source,
            call=found.call,
            fix="Make the mask in each forward; keep only what depends on sizes alone.",
        )


def _of_foreign(masks: Iterable[ForeignMask]) -> Iterator[Finding]:
    for each in masks:
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


def _of_lone(each: LoneMask) -> Finding:
    from attnscope.checks.masking.lines import tiling_behind

    call = each.seen.call
    return RULE.found(
        f"what joins the scores of sample {each.sample} in the batch is not what joins them where "
        f"it runs alone: {each.rows} of {each.of} rows (windows and heads) get that of another "
        f"one, off by up to {each.largest:.3g} (0 is right)",
        {
            "sample": each.sample,
            "rows": each.rows,
            "all_rows": each.of,
            "largest": each.largest,
            "batch": call.batch,
            "heads": call.heads,
        },
        source=tiling_behind(each.seen, each.operation) or each.operation.source or call.source,
        call=call,
    )


def _of_place(each: ByPlace) -> Finding:
    heads = each.call.heads
    many = (
        f"there are as many samples as heads ({heads})"
        if heads == each.samples
        else f"there are {each.samples} samples"
    )
    return RULE.found(
        f"{each.shape} joins {each.meets} here: axis {each.axis} are the samples of the batch, and "
        f"no input decides which one gets what; {many}. With its entries in another order outputs "
        f"move by up to {each.moved:.2g}",
        {
            "shape": list(each.shape),
            "meets": list(each.meets),
            "axis_of_samples": each.axis,
            "batch": each.samples,
            "heads": heads,
            "moved": each.moved,
        },
        source=each.source or each.call.source,
        call=each.call,
        fix=_FIX_OF_PLACE,
    )


def _line(each: ForeignMask) -> Source:
    """Return where the mask is tiled, else where it meets the scores."""
    from attnscope.checks.masking.lines import tiling_behind

    hides = (*each.seen.hides, *each.seen.late)
    for hide in hides:
        tiled = tiling_behind(each.seen, hide.operation)
        if tiled is not None:
            return tiled
    first = next((h.operation.source for h in hides if h.value is not None), None)
    return first or each.seen.call.source


_FIX_OF_PLACE = (
    "Give what each head has of its own an axis of one sample: bias[None], or "
    "view(1, heads, 1, 1) for scores (batch, heads, queries, keys)."
)

RULE = Rule(
    code="AS211",
    name="mask-broadcast",
    severity="error",
    what=(
        "The mask of one sample meets the scores of another, or the bias of one head meets a "
        "sample. It is tiled in the wrong order over heads or beams, or an axis is missing and it "
        "broadcasts over heads or queries because sizes happen to agree (or it raises). Or the "
        "mask is that of an earlier batch, which the forward made and kept."
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
        "What one sample's mask says is turned into its opposite, and the operations that make the "
        "mask are run again: the rule fires where other samples then hide other keys, while some "
        "rows of the sample itself do not. What no input decides (a bias, a slope, a temperature "
        "for each head) must not differ from sample to sample: the rule fires where it does, and "
        "outputs move when its entries change places. A kept mask is an earlier batch's where the "
        "same inputs, run twice after other samples, are masked otherwise than alone."
    ),
    limits=(
        "Needs a batch of two or more, and an input (mask, lengths, padding ids) of which the mask "
        "is made. What differs by sample, and is made of no parameter, counts only where there are "
        "as many samples as heads."
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
    on_crash=True,
    explains=("AS102", "AS202", "AS203", "AS205", "AS212", "AS305"),
)  # fmt: skip
