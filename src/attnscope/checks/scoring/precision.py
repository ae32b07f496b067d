"""How much a softmax in half precision loses of what its own q and k say."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.course import Course, course_of
from attnscope.checks.scoring.reading import recorded_weights, weights_met
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["Lost", "lost_in_half"]

_SUMS = frozenset("sum cumsum add iadd radd logsumexp".split())

_HALVES = (torch.float16, torch.bfloat16)

_ROUNDINGS = 3.0
"""Roundings of the type by which weights may be off: their own, and that of the scores."""

_OF_SUMS = 2.0
"""Roundings by which the sum of a row may be off: where all weights are alike, each is by one."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Weight that went to wrong keys: the mean and the 95th percentile over rows, and one rounding.

    of: "weights", "sums" (of the weights of a query) or "context" (in blocks, where weights are
    never whole).
    """

    of: str
    mean: float
    high: float
    rounding: float
    dtype: str
    source: Source


def lost_in_half(subject: Subject, call: Call) -> Lost | None:
    """Return what a softmax in half precision loses; None: nothing to speak of, or it is upcast."""
    if call.kind != "eager":
        return None
    course = course_of(subject, call)
    if course is None:
        return _in_blocks(call)
    softmax = course.softmax
    first = next(softmax.values(), None) if softmax is not None else None
    made = softmax.defines[0] if softmax is not None else None
    tensors = subject.base.tape.tensors
    if first is None or made is None or tensors[first].dtype not in _HALVES:
        return None
    dtype = tensors[made].dtype
    if dtype not in _HALVES:
        return None
    right, ours = weights_met(subject, call), recorded_weights(subject, call)
    if right is None or ours is None or right.shape != ours.shape:
        return None
    source = _line_of_sum(subject, course, ours, right) or course.line(softmax, course.product)
    seeing = _seeing(call, ours)
    gap = (0.5 * (ours.double() - right).abs().sum(-1))[seeing]
    sums = (ours.double().sum(-1) - right.sum(-1)).abs()[seeing]
    return _judged("weights", gap, dtype, source) or _judged("sums", sums, dtype, source, _OF_SUMS)


def _line_of_sum(subject: Subject, course: Course, ours: Tensor, right: Tensor) -> Source | None:
    """Return the line that adds up a written-out softmax, where most is lost behind the exponents.

    That is so where weights from the very exponents, in float64, are nearer to the right ones.
    """
    softmax, tape = course.softmax, subject.base.tape
    spots = course.located.spots.get("weights", [])
    if softmax is None or softmax.name != "exp" or len(spots) != 1:
        return None
    ((value, spot),) = spots
    powers = softmax.defines[0]
    try:
        exact = spot.read(tape.run([value], {powers: tape.tensors[powers]}, wide=True)[value])
    except UNREADABLE:
        return None
    behind = course.main[course.main.index(softmax) + 1 :]
    sums = [op.source for op in behind if op.name.removesuffix("_") in _SUMS and op.source]
    lost, before = (ours.double() - exact).abs().sum(), (exact - right).abs().sum()
    return sums[-1] if sums and bool(lost > before) else None


def _seeing(call: Call, weights: Tensor) -> Tensor:
    """Return which rows see a key: those of the others, weights over hidden keys, say nothing."""
    shown = call.recipe.mask.dense(call.queries, call.keys).any(-1)
    return shown.expand(weights.shape[:-1])


def _judged(
    of: str, gap: Tensor, dtype: torch.dtype, source: Source, roundings: float = _ROUNDINGS
) -> Lost | None:
    gap = gap[gap.isfinite()]
    if not gap.numel():
        return None
    rounding = torch.finfo(dtype).eps / 2
    high = float(gap.flatten().kthvalue(max(1, int(0.95 * gap.numel()))).values)
    if high <= roundings * rounding:
        return None
    name = str(dtype).removeprefix("torch.")
    return Lost(of, float(gap.mean()), high, rounding, name, source)


def _in_blocks(call: Call) -> Lost | None:
    """Compare the context of attention in blocks with that of its own q, k and v in float64."""
    recipe = call.recipe
    try:
        dtype = call.v.dtype
    except UNREADABLE:
        return None
    if (
        dtype not in _HALVES
        or not isinstance(recipe.scale, int | float)
        or recipe.mask.hides
        or recipe.bias is not None
    ):
        return None
    try:
        q, k, v = (each.detach().double() for each in (call.q, call.k, call.v))
        context = call.context().detach().double()
        right = recipe.weigh((recipe.raw_scores(q, k) * recipe.scale).softmax(-1), v)
    except UNREADABLE:
        return None
    size = right.square().mean(-1).sqrt().mean().clamp_min(1e-12)
    gap = (context - right).square().mean(-1).sqrt() / size
    return _judged("context", gap, dtype, call.source)
