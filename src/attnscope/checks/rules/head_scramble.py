"""AS103: splitting or merging heads mixes heads with tokens or features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attnscope.checks.finding import Finding
from attnscope.checks.rule import Rule, Skipped

if TYPE_CHECKING:
    from attnscope.calls.call import Call
    from attnscope.calls.program import Operation
    from attnscope.checks.structure.landing import Scramble
    from attnscope.checks.subject.subject import Subject

__all__ = ["RULE"]

_MOST_SHOWN = 6


def _check(subject: Subject) -> Iterator[Finding]:
    from attnscope.checks.probes.coded import coded
    from attnscope.checks.structure.landing import runs_over_heads, runs_over_samples, scrambled
    from attnscope.checks.structure.splitting import operation_of_scramble

    for each in coded(subject):
        if runs_over_samples(each) is not None or runs_over_heads(each) is not None:
            continue
        found = scrambled(each)
        operation = operation_of_scramble(subject, each, found) if found is not None else None
        if found is None or (found.cut and operation is None):
            yield from _cut(subject, each.call)
            continue
        yield RULE.found(
            _message(subject, found, operation),
            {
                "side": found.side,
                "sample": found.token[0],
                "position": found.token[1],
                "lands_at": [list(place) for place in found.places[:_MOST_SHOWN]],
                "heads": found.heads,
            },
            source=operation.source if operation is not None else None,
            call=each.call,
            fix=_FIX_OF_CUT if found.cut else _FIX_OF_MERGE if found.side == "out" else None,
        )


def _cut(subject: Subject, call: Call) -> Iterator[Finding]:
    """A reshape around a call that neither merges axes nor takes one apart."""
    from attnscope.checks.structure.ragged import ragged_of

    located = subject.located(call)
    found = ragged_of(subject, located) if located is not None else None
    if found is None or (not found.inside and _samples_mix(subject)):
        return
    merging = found.side == "out"
    yield RULE.found(
        f"{'merging' if merging else 'splitting'} heads mixes tokens: {found.operation.name} of "
        f"{found.before} as {found.after} cuts across axes, so that one index of the result holds "
        "pieces of several"
        if found.inside
        else f"{found.operation.name} of {found.before} as {found.after} cuts across axes: each "
        f"token that {found.side} is made of holds pieces of several",
        {"side": found.side, "shape": list(found.before), "reshaped": list(found.after)},
        source=found.operation.source,
        call=call,
        fix=_FIX_OF_MERGE if merging else None if found.inside else _FIX_OF_TOKENS,
    )


def _samples_mix(subject: Subject) -> bool:
    """Return whether samples mix: AS102 tells of that."""
    from attnscope.checks.probes.batch_mates import batch_mates

    try:
        return batch_mates(subject).leaks
    except Skipped:
        return False


def _message(subject: Subject, found: Scramble, operation: Operation | None) -> str:
    if found.cut and operation is not None:
        return _message_of_cut(subject, found, operation)
    if found.side == "out":
        apart = len(set(found.samples)) > 1
        shown = [
            f"head {head} to token {at}" + (f" of sample {sample}" if apart else "")
            for (head, at), sample in zip(found.places, found.samples, strict=True)
        ][:_MOST_SHOWN]
        more = len(found.places) - len(shown)
        tail = f" and {more} more" if more else ""
        return (
            f"merging heads mixes {'samples' if apart else 'tokens'}: what the heads computed for "
            f"position {found.token[1]} goes to different tokens of the output: "
            f"{', '.join(shown)}{tail}"
        )
    return (
        f"splitting heads mixes tokens: the features of token {found.token[1]} land in "
        f"{found.side} at {_shown(found.places)} instead of at position {found.token[1]} of every "
        "head"
    )


def _message_of_cut(subject: Subject, found: Scramble, operation: Operation) -> str:
    tensors = subject.base.tape.tensors
    before = tuple(tensors[next(operation.values())].shape)
    after = tuple(tensors[operation.defines[0]].shape)
    position = found.token[1]
    what, held = f"{operation.name} of {before} as {after}", "keeps the order of the numbers"
    if found.side == "out":
        ends = sorted({at for head, at in found.places if head == found.places[0][0]})
        return (
            f"{what} {held} and swaps no axes: the context of one head at position {position} is "
            f"torn apart over {_span(ends)} of the output"
        )
    head = found.places[0][0]
    ends = sorted({at for other, at in found.places if other == head})
    return (
        f"{what} {held} and swaps no axes: the features of token {position} are torn apart over "
        f"{_span(ends)} of {found.side} in every head"
    )


def _shown(places: tuple[tuple[int, int], ...]) -> str:
    """Return "head 0 positions 0 to 3 and head 1 position 4" for such places."""
    heads: dict[int, list[int]] = {}
    for head, at in places:
        if at not in heads.setdefault(head, []):
            heads[head].append(at)
    parts = [f"head {head} {_span(sorted(heads[head]))}" for head in sorted(heads)]
    shown = parts[:_MOST_SHOWN]
    more = len(parts) - len(shown)
    tail = [f"{more} more heads"] if more else []
    return " and ".join(
        filter(None, [", ".join(shown if more else shown[:-1]), *(tail or shown[-1:])])
    )


def _span(positions: list[int]) -> str:
    """Return "position 4", "positions 0 to 3" or "positions 0, 2 and 5"."""
    if len(positions) == 1:
        return f"position {positions[0]}"
    if positions[-1] - positions[0] == len(positions) - 1:
        return f"positions {positions[0]} to {positions[-1]}"
    some = ", ".join(map(str, positions[:_MOST_SHOWN]))
    return f"positions {some}" + (" and more" if len(positions) > _MOST_SHOWN else "")


_FIX_OF_TOKENS = (
    "Bring the axes into the order of the result first, with permute, then reshape: a reshape only "
    "merges neighbouring axes or takes one apart."
)
_FIX_OF_CUT = (
    "Swap axes with transpose or permute, and keep reshape for axes that are merged or taken "
    "apart: k.transpose(-2, -1)."
)
_FIX_OF_MERGE = (
    "Bring heads next to the features before they are merged: "
    "context.transpose(1, 2).reshape(batch, length, heads * head_dim)."
)

RULE = Rule(
    code="AS103",
    name="head-scramble",
    severity="error",
    what=(
        "Splitting or merging heads by a view or reshape of the wrong axis order: what is called a "
        "head holds pieces of several tokens, or what is called a token holds pieces of several."
    ),
    why=(
        "The shapes are right and the scramble is the same at every step, so a model trains around "
        "it and learns worse. Masks then hide the wrong things: a causal mask no longer keeps the "
        "future out."
    ),
    fix=(
        "Split the last axis first and move it afterwards: x.view(batch, length, heads, "
        "head_dim).transpose(1, 2)."
    ),
    proof=(
        "Single tokens of what the projection receives are changed, one at a time, in float64: "
        "each must move its own position of every head and nothing else. On the way out, the "
        "context of one position is changed head by head: all heads must reach the same token. "
        "Where as many features move as a token has, and they lie at several positions, a reshape "
        "stood for a transpose. "
        "Also where a reshape before the projections, between them and attention, or on the way "
        "out neither merges axes nor takes one apart: places between its axes, counted in entries, "
        "don't divide one another."
    ),
    limits=(
        "Convolutions and poolings, whose neighbours share places, are left alone. The order "
        "of features inside a head can't be judged without a reference: see "
        "attnscope verify."
    ),
    sources=(
        "https://github.com/meta-pytorch/opacus/issues/774",
        "https://arxiv.org/abs/2508.04925",
    ),
    bad="""
import torch
from torch import nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.reshape(B, self.heads, T, C // self.heads) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


model = SelfAttention().eval()
inputs = torch.randn(3, 7, 32)
""",
    good="""
import torch
from torch import nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


model = SelfAttention().eval()
inputs = torch.randn(3, 7, 32)
""",
    check=_check,
    explains=(
        "AS101", "AS104", "AS201", "AS202", "AS205", "AS206", "AS209", "AS210", "AS212", "AS305",
        "AS401", "AS402", "AS501", "AS503", "AS504", "AS601",
    ),
)  # fmt: skip
