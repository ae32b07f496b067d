"""Along which axis weights sum to one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.call import Call
from attnscope.calls.program import Operation, Value
from attnscope.calls.source import Source
from attnscope.checks.course import Course, course_of
from attnscope.checks.influence import Allowed, first_mixing, moved
from attnscope.checks.operations import CONTRACTIONS
from attnscope.checks.scoring.given_axis import line_of_axis
from attnscope.checks.scoring.mates import other_last_sample
from attnscope.checks.scoring.reading import (
    path_back,
    projection_names,
    recorded_weights,
    weights_met,
)
from attnscope.checks.softmaxes import (
    SOFTMAXES,
    axis_of_softmax,
    operand_of,
    softmaxes_outside,
)
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = [
    "Outside",
    "Twice",
    "WrongAxis",
    "line_of_softmax",
    "over_one",
    "over_samples",
    "softmax_again",
    "wrong_axis",
]

_ONE = 1e-6
"""How far a sum of weights in float64 may be from one."""

_NOT_ONE = 1e-3
"""How far the sums of rows must be from one to be called wrong."""

_SUMS = frozenset("sum logsumexp".split())
_AXES = {
    "queries": (2,),
    "heads": (1,),
    "batch": (0,),
    "heads and keys together": (1, 3),
    "samples and keys together": (0, 3),
}
_E = 2.718281828459045


@dataclass(frozen=True, slots=True, eq=False)
class WrongAxis:
    """Weights that sum to one over another axis than the keys.

    row_sums: the least and the largest sum over the keys; sums: the mean sum over `axis`;
    transposed: the softmax is right, the product with v is not.
    """

    axis: str
    row_sums: tuple[float, float]
    sums: float
    transposed: bool
    source: Source


@dataclass(frozen=True, slots=True, eq=False)
class Twice:
    """A softmax over what a softmax made; bound: e/(keys - 1 + e)."""

    largest: float
    bound: float
    keys: int
    source: Source


@dataclass(frozen=True, slots=True, eq=False)
class Outside:
    """A softmax of no recorded call, over an axis of one entry or over the batch."""

    axis: int
    size: int
    shape: tuple[int, ...]
    source: Source | None


def wrong_axis(subject: Subject, call: Call) -> WrongAxis | None:
    """Return over what the weights of a call sum to one, where that is not the keys."""
    weights = weights_met(subject, call)
    if weights is None:
        return None
    rows = weights.sum(-1)
    rows = rows[rows.isfinite()]
    if not rows.numel() or float((rows - 1).abs().min()) < _ONE:
        return None
    if float((rows - 1).abs().max()) < _NOT_ONE:
        return None
    axis = next((name for name in _AXES if _sums_to_one(weights, _AXES[name])), None)
    if axis is not None and len(_AXES[axis]) > 1 and _is_summed(subject, call, _AXES[axis][0]):
        return None  # the parts of one row, which is put together again behind v
    if axis is None and call.recipe.normaliser_axis in _AXES and not call.recipe.after:
        axis = call.recipe.normaliser_axis
    if axis is None:
        return None
    course = course_of(subject, call)
    transposed = axis == "queries" and _is_transposed(subject, call, course)
    sums = weights.sum(_AXES[axis])
    return WrongAxis(
        axis,
        (float(rows.min()), float(rows.max())),
        float(sums[sums.isfinite()].mean()),
        transposed,
        _line(subject, call, course, transposed=transposed),
    )


def _is_summed(subject: Subject, call: Call, axis: int) -> bool:
    """Return whether outputs are the same with the context in another order along an axis."""
    base, located = subject.base, subject.located(call)
    main = next(iter(base.outputs.values()), None)
    if located is None or main is None or not base.is_faithful:
        return True
    turned = located.value("context").detach().flip(axis)
    after = base.wide_output(main, located.write("context", turned))
    gap = (after - base.wide_output(main)).abs().nan_to_num(0.0, 0.0, 0.0)
    return not gap.numel() or float(gap.max()) <= subject.noise


def _sums_to_one(weights: Tensor, axes: tuple[int, ...]) -> bool:
    if any(weights.shape[axis] < 2 for axis in axes):
        return False
    sums = weights.sum(axes)
    sums = sums[sums.isfinite() & (sums != 0)]
    return bool(sums.numel()) and float((sums - 1).abs().max()) < _ONE


def _is_transposed(subject: Subject, call: Call, course: Course | None) -> bool:
    """Return whether it is the product with v that is wrong: what is called k is asked for q.

    Told by the mask (a causal one upside down), by the names of the projections, and else by the
    softmax being over the last axis.
    """
    kinds = call.recipe.mask.kinds
    if any(kind.startswith("causal") for kind in kinds):
        return False
    if "custom" in kinds and call.queries == call.keys:
        seen = call.recipe.mask.dense(call.queries, call.keys)
        square = seen.reshape(-1, call.queries, call.keys)[0]
        return bool((square == torch.ones_like(square).triu()).all())
    names = {side: " ".join(projection_names(subject, call, side)).lower() for side in "qk"}
    if names["q"] and names["q"] != names["k"]:
        if "key" in names["q"] and "query" in names["k"]:
            return True
        if "query" in names["q"] and "key" in names["k"]:
            return False
    softmax = course.softmax if course is not None else None
    return softmax is not None and _is_over_last(subject, softmax)


def _is_over_last(subject: Subject, operation: Operation) -> bool:
    axis, tensor = axis_of_softmax(subject, operation), operand_of(subject, operation)
    return axis is not None and tensor is not None and axis == tensor.dim() - 1


def _line(subject: Subject, call: Call, course: Course | None, *, transposed: bool) -> Source:
    if course is not None and transposed:
        return course.line(course.weighing)
    line = line_of_softmax(subject, call, course)
    softmax = course.softmax if course is not None else None
    named = line_of_axis(subject, softmax) if softmax is not None else None
    return named if named is not None and softmax is not None and softmax.source == line else line


def line_of_softmax(subject: Subject, call: Call, course: Course | None) -> Source:
    """Return the line of a softmax, of its sum where it is written out, or of the call."""
    if course is None:
        return _first_softmax(subject, call) or call.source
    named = [op for op in course.main if op.name in SOFTMAXES]
    sums = [op for op in course.main[:-1] if op.name in _SUMS]
    return course.line(*named[-1:], *sums[-1:], course.softmax)


def _first_softmax(subject: Subject, call: Call) -> Source | None:
    """Return the line of the first softmax over what q and k make, where no context is known."""
    located = subject.located(call)
    spots = located.spots if located is not None else {}
    reached = {value for name in ("q", "k") for value, _ in spots.get(name, [])}
    for operation in subject.base.tape.operations if reached else ():
        if reached.isdisjoint(operation.values()):
            continue
        if operation.name in SOFTMAXES:
            return operation.source
        reached.update(operation.defines)
    return None


def softmax_again(subject: Subject, call: Call) -> Twice | None:
    """Return the second softmax of a call, where its operand sums to one already."""
    course = course_of(subject, call)
    if course is None:
        return None
    for operation in [op for op in course.main if op.name in SOFTMAXES][1:]:
        axis, tensor = axis_of_softmax(subject, operation), operand_of(subject, operation)
        if axis is None or tensor is None or tensor.shape[axis] < 2:
            continue
        given = tensor.detach().double()
        error = float((given.sum(axis) - 1).abs().max())
        enough = 8 * torch.finfo(tensor.dtype).eps * tensor.shape[axis]
        if bool((given >= 0).all()) and error <= enough:
            weights = recorded_weights(subject, call)
            keys = tensor.shape[axis]
            largest = float(weights.max()) if weights is not None else float("nan")
            return Twice(largest, _E / (keys - 1 + _E), keys, course.line(operation))
    return None


def over_one(subject: Subject) -> Iterator[Outside]:
    """Iterate over softmaxes of scores that are one number each, over that very axis."""
    for operation in softmaxes_outside(subject):
        axis, tensor = axis_of_softmax(subject, operation), operand_of(subject, operation)
        if axis is None or tensor is None or tensor.shape[axis] != 1 or tensor.dim() < 2:
            continue
        longest = max(tensor.shape)
        scored = longest > 1 and _made_of_one_feature(subject, operation)
        if scored and _is_weighing(subject, operation):
            yield Outside(axis, 1, tuple(tensor.shape), operation.source)


def over_samples(subject: Subject) -> Iterator[Outside]:
    """Iterate over softmaxes that are the first to mix the samples of the batch."""
    main = subject.roles.main
    batch = main.batch(subject.given) if main is not None else 1
    suspects = []
    for operation in softmaxes_outside(subject):
        axis, tensor = axis_of_softmax(subject, operation), operand_of(subject, operation)
        if axis is not None and tensor is not None and tensor.shape[axis] == batch > 1:
            suspects.append((operation, axis, tensor))
    if not suspects:
        return
    changed = other_last_sample(subject)
    try:
        entries = moved(subject.base.tape, changed)
    except UNREADABLE:
        return
    mixing = first_mixing(subject.base.tape, entries, Allowed(torch.arange(batch) == batch - 1))
    for operation, axis, tensor in suspects:
        if operation is mixing and _is_weighing(subject, operation):
            yield Outside(axis, batch, tuple(tensor.shape), operation.source)


def _made_of_one_feature(subject: Subject, operation: Operation) -> bool:
    """Return whether the scores come from a projection to one feature."""
    first = next(operation.values())
    tensors, weights = subject.base.tape.tensors, subject.base.weights
    made = list(path_back(subject, first, weights))
    if not made or made[-1].name not in CONTRACTIONS:
        return False
    projection = made[-1]
    return (
        any(value in weights for value in projection.values())
        and bool(projection.shapes)
        and tensors[projection.defines[0]].shape[-1] == 1
    )


def _is_weighing(subject: Subject, operation: Operation) -> bool:
    """Return whether what a softmax made is multiplied with something that is no parameter."""
    waiting, seen = list(operation.defines), set[int]()
    weights, users = subject.base.weights, subject.base.tape.users
    while waiting and len(seen) < 24:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for user in users.get(value, []):
            others = [v for v in user.values() if v != value and v not in weights]
            if (user.name in CONTRACTIONS or user.name == "mul") and others:
                return True
            if len(list(user.values())) == 1 and isinstance(user.args[0], Value):
                waiting += user.defines
    return False
