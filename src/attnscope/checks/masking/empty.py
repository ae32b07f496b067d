"""Queries from which every key is hidden: what they give, and who reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from attnscope.checks.influence import moved
from attnscope.checks.masking.seen import NOTHING, Seen
from attnscope.checks.rule import Skipped
from attnscope.checks.subject.roles import Stream
from attnscope.checks.subject.subject import Subject
from attnscope.checks.subject.varying import along
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Empty", "empty_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class Empty:
    """Rows of one call that see nothing.

    gives: "nan", or "uniform" weights over keys that are all hidden. rows: how many (over batch and
    queries, in any head); sample, query: the first. reaches: how many entries of the output hold
    NaN or depend on such a row.
    """

    gives: Literal["nan", "uniform"]
    rows: int
    all_rows: int
    sample: int
    query: int
    weight: float
    reaches: int


def empty_rows(subject: Subject, seen: Seen) -> Empty | None:
    """Return the rows of a call that see nothing and matter; None: there are none."""
    try:
        return _found(subject, seen)
    except UNREADABLE:
        return None


def _found(subject: Subject, seen: Seen) -> Empty | None:
    hidden, weights, course = seen.hidden, seen.weights, seen.course
    if hidden is None or weights is None or course is None or not hidden.numel():
        return None
    if hidden.shape != weights.shape:
        return None
    rows = hidden.all(-1)
    if not bool(rows.any()):
        return None
    spots = course.located.spots["context"]
    context = subject.base.stage_of(course.located, "context")
    hollow = rows & context.isnan().any(-1)
    if bool(hollow.any()):
        lost = int(subject.output.isnan().sum())
        return _made("nan", hollow, float("nan"), lost) if lost else None
    given = torch.where(rows[..., None], weights, torch.zeros_like(weights)).nan_to_num(0.0)
    spread = rows & (given.amax(-1) > NOTHING) & ~_falls_back(given)
    lost = _lost_by_user(subject)
    if lost:
        return _made("nan", rows, float("nan"), lost)
    if not bool(spread.any()) or len(spots) != 1:
        return None
    ((value, spot),) = spots
    generator = torch.Generator().manual_seed(subject.seed)
    fresh = torch.randn(context.shape, generator=generator, dtype=torch.float64)
    other = spot.write(torch.where(spread[..., None], fresh, context))
    reaches = _reached(subject, seen, spread, {value: other})
    return _made("uniform", spread, float(given.max()), reaches) if reaches else None


def _falls_back(weights: Tensor) -> Tensor:
    """Return the rows whose whole weight lies on the query's own key, (batch, heads, queries).

    A fill that is weaker there than elsewhere lets a token see itself where it sees nothing else.
    """
    if weights.shape[-1] != weights.shape[-2]:
        return torch.zeros(weights.shape[:-1], dtype=torch.bool)
    return weights.diagonal(dim1=-2, dim2=-1) >= 1 - NOTHING


def _lost_by_user(subject: Subject) -> int:
    """Return how many entries of the output are NaN as the user runs it, and not when watched.

    A fused layer without gradients gives NaN for such rows where its parts give zeros.
    """
    if any(bool(each.isnan().any()) for each in subject.base.outputs.values()):
        return 0
    try:
        return int(subject.output.isnan().sum())
    except Skipped:
        return 0


def _made(gives: Literal["nan", "uniform"], rows: Tensor, weight: float, reaches: int) -> Empty:
    flat = rows.any(1)
    sample, query = (int(n) for n in flat.nonzero()[0])
    return Empty(gives, int(flat.sum()), flat.numel(), sample, query, weight, reaches)


def _reached(subject: Subject, seen: Seen, rows: Tensor, changed: dict[int, Tensor]) -> int:
    """Return how many real tokens, or samples, depend on what such rows give."""
    output = next(iter(subject.base.outputs.values()), None)
    at = subject.base.tape.value_of(output) if output is not None else None
    if output is None or at is None:
        return 0
    entries = moved(subject.base.tape, changed, {at}).get(at)
    stream = subject.roles.main
    if entries is None or not bool(entries.any()):
        return 0
    samples, tokens = along(subject, output) if stream is not None else (0, None)
    if tokens is None:
        return int(entries.flatten(1).any(1).sum()) if output.dim() <= 2 else 0
    if stream is None or seen.call.queries != stream.length(subject.given):
        return 0
    return _tokens(subject, stream, entries, rows, (samples, tokens))


def _tokens(
    subject: Subject,
    stream: Stream,
    entries: Tensor,
    rows: Tensor,
    axes: tuple[int | None, int],
) -> int:
    keep = [axis for axis in axes if axis is not None]
    rest = [axis for axis in range(entries.dim()) if axis not in keep]
    flat = entries.permute(*keep, *rest).reshape(*(entries.shape[a] for a in keep), -1).any(-1)
    flat = flat if flat.dim() == 2 else flat[None]
    empty = rows.any(1)
    if tuple(empty.shape) != tuple(flat.shape):
        return 0
    padding = subject.roles.padding_of(stream)
    if padding is not None and padding.given:
        return int((flat & padding.real(subject.given)).sum())
    everywhere = empty.all(0, keepdim=True)  # no padding: the same query of every sample
    return int((flat & (~empty | everywhere | _within(empty))).sum())


def _within(empty: Tensor) -> Tensor:
    """Return the empty rows that have others before and behind them: no padding is there."""
    before = (~empty).cummax(1).values
    behind = (~empty).flip(1).cummax(1).values.flip(1)
    return empty & before & behind
