"""Names the function that made weights of scores, by computing each candidate and comparing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor

from attnscope.calls.broadcasting import collapse
from attnscope.calls.normalisers import AXES, NORMALISERS
from attnscope.calls.recipe import EmptyRow
from attnscope.calls.tolerance import rounding, unit_roundoff

__all__ = ["NormaliserReading", "read_normaliser"]

_BLOCK_ELEMENTS = 1 << 20
_FIRST_ELEMENTS = 1 << 14
_STEPS = 8
_SUBTRACTING = frozenset({"sparsemax", "entmax"})
_ELEMENTWISE = ("relu", "relu-squared", "sigmoid", "exp", "identity")


@dataclass(frozen=True, slots=True, eq=False)
class NormaliserReading:
    """Which normaliser made the weights.

    name: one of `NORMALISERS`, or "unknown"; axis: "keys", "queries", "heads", "batch";
    factor: what its result was multiplied by, the same everywhere (1/keys in ReLU attention).
    sinks: logits that take part though they are no column of the scores, (…, 1) broadcastable to
        (batch, heads, queries, 1); None: there are none.
    empty_row: weights of rows whose scores are all -inf; None: there are no such rows.
    """

    name: str
    axis: str = "keys"
    sinks: Tensor | None = None
    empty_row: EmptyRow | None = None
    factor: float = 1.0


@torch.no_grad()
def read_normaliser(scores: Tensor, weights: Tensor) -> NormaliserReading:
    """Name the normaliser and the axis that it ran over.

    Args:
        scores: (batch, heads, queries, columns), what entered; -inf or a low number where hidden.
        weights: (batch, heads, queries, columns or fewer): what left it, before dropout; extra
            columns of the scores (sinks) may have been cut off at the end.

    Rows whose scores are all -inf are judged on their own, since kernels differ in what they give.
    """
    keys = weights.shape[-1]
    if keys > scores.shape[-1] or weights.numel() == 0:
        return NormaliserReading("unknown")
    empty_row, counted, strange = _empty_rows(scores, weights)
    if strange:
        return NormaliserReading("unknown")
    for name, axis in _candidates():
        if _matches(name, axis, scores, weights, counted):
            return NormaliserReading(name, axis, empty_row=empty_row)
    sinks = _implicit_sinks(scores, weights, counted)
    if sinks is not None:
        return NormaliserReading("softmax", sinks=sinks, empty_row=empty_row)
    for name in _ELEMENTWISE:
        factor = _factor(name, scores, weights, counted)
        if factor is not None:
            return NormaliserReading(name, empty_row=empty_row, factor=factor)
    return NormaliserReading("unknown", empty_row=empty_row)


def _candidates() -> Iterator[tuple[str, str]]:
    """Yield (name, axis), the most frequent first; elementwise functions have no other axis."""
    for axis in AXES:
        yield "softmax", axis
    for name in NORMALISERS:
        if name != "softmax":
            yield name, "keys"
    for name in ("softmax-off-by-one", "relu-normalised", "sparsemax", "entmax"):
        for axis in AXES:
            if axis != "keys":
                yield name, axis


def _empty_rows(scores: Tensor, weights: Tensor) -> tuple[EmptyRow | None, Tensor, bool]:
    """Return what rows of -inf turned into, where the other rows are, and if that has no name."""
    empty = scores.isneginf().all(-1, keepdim=True) | scores.isnan().all(-1, keepdim=True)
    if not bool(empty.any()):
        return None, ~empty, False
    rows = weights[empty[..., 0]]
    if bool(rows.isnan().all()):
        return "nan", ~empty, False
    if bool((rows == 0).all()):
        return "zero", ~empty, False
    uniform = (rows * rows.shape[-1] - 1).abs() <= rounding(weights.dtype)
    return "uniform", ~empty, not bool(uniform.all())


def _factor(name: str, scores: Tensor, weights: Tensor, counted: Tensor) -> float | None:
    """Return the one number that an elementwise function has to be multiplied by, or None."""
    expected = NORMALISERS[name](scores[..., : weights.shape[-1]].double(), AXES["keys"])
    usable = counted & expected.isfinite() & (expected != 0)
    if not bool(usable.any()):
        return None
    place = expected.abs().masked_fill(~usable, 0.0).argmax()
    factor = float(weights.flatten()[place].double() / expected.flatten()[place])
    if factor == 0.0 or not isfinite(factor):
        return None
    fits = _matches(name, "keys", scores, weights.double() / factor, counted, weights.dtype)
    return factor if fits else None


def _matches(
    name: str,
    axis: str,
    scores: Tensor,
    weights: Tensor,
    counted: Tensor,
    dtype: torch.dtype | None = None,
) -> bool:
    """Compare one candidate with the weights, part by part; most fail at the first, small one."""
    keys = weights.shape[-1]
    made, short = dtype or weights.dtype, scores.dtype
    for part in _parts(axis, scores.shape):
        block = scores[part].double()
        expected = NORMALISERS[name](block, AXES[axis])[..., :keys]
        actual = weights[part].double()
        slack = _slack(block[..., :keys], expected, short, made)
        if name in _SUBTRACTING:  # a threshold made of all scores of the row is taken off each
            rounded = max(unit_roundoff(made), unit_roundoff(short))
            size = block.abs().masked_fill(~block.isfinite(), 0).sum(-1, keepdim=True)
            slack = slack + rounded * (1 + size)
        near = (expected - actual).abs() <= slack
        same = near | (expected == actual) | (expected.isnan() & actual.isnan())
        if not bool((same | ~counted[part]).all()):
            return False
    return True


def _parts(axis: str, shape: torch.Size) -> Iterator[tuple[slice, ...]]:
    """Yield parts that a normaliser over `axis` can be computed of alone, the first ones small."""
    batch, heads, queries, columns = shape
    everything = slice(None)
    if axis == "queries":
        for sample in range(batch):
            for head in range(heads):
                yield slice(sample, sample + 1), slice(head, head + 1), everything, everything
        return
    row = max(1, batch * heads * columns)
    start, elements = 0, _FIRST_ELEMENTS
    while start < queries:
        stop = start + max(1, elements // row)
        yield everything, everything, slice(start, stop), everything
        start, elements = stop, min(2 * elements, _BLOCK_ELEMENTS)


def _slack(block: Tensor, expected: Tensor, before: torch.dtype, after: torch.dtype) -> Tensor:
    """Return how far weights may be off: 8 roundings, more where scores of some size were rounded.

    A function that rounds to a short type between its steps is off by u · |s| in the exponent.
    Weights far below their row's largest may be off by a rounding of that one, once summed.
    """
    rounded = max(unit_roundoff(after), unit_roundoff(before))
    size = block.abs().masked_fill(~block.isfinite(), 0)
    largest = expected.abs().nan_to_num(0.0).amax(-1, keepdim=True)
    tiny = float(torch.finfo(after).tiny)
    relative = expected.abs().nan_to_num(0.0) * (1 + size.clamp_max(100.0))
    return _STEPS * (rounded * relative + unit_roundoff(after) * 0.01 * largest) + tiny


def _implicit_sinks(scores: Tensor, weights: Tensor, counted: Tensor) -> Tensor | None:
    """Return the logit per head that would make the weights a softmax with one more column.

    From w = exp(s) / (exp(sink) + Σ exp(s)):  sink = log Σ exp(s) + log((1 - Σ w) / Σ w).
    """
    if scores.shape[-1] != weights.shape[-1]:
        return None
    exact = scores.double()
    total = weights.double().sum(-1, keepdim=True)
    taken = 1 - total
    usable = counted & (total > 0) & (taken > 0)
    if not bool(usable.any()) or bool((counted & (total >= 1 + rounding(weights.dtype))).any()):
        return None
    logits = exact.logsumexp(-1, keepdim=True) + torch.log(taken / total)
    error = (rounding(weights.dtype) + rounding(scores.dtype)) * (1 / taken + 1 / total)
    slack = error.masked_fill(~usable, float("inf"))
    sinks = collapse(logits.nan_to_num(0.0), usable, slack=slack, axes=(2, 0, 1))
    if sinks.shape[0] != 1 or sinks.shape[2] != 1:
        return None
    columns = torch.cat([exact, sinks.expand(*exact.shape[:-1], 1)], -1)
    if not _matches("softmax", "keys", columns, weights, counted):
        return None
    return sinks
