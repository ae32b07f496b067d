"""The line at which a mask goes wrong: where it is made, where it is applied, or where none is.

What is wrong is a set of pairs (query, key): seen though they should be hidden, or the reverse.
Every operation that a mask is made by is looked at in order: the first whose result tells hidden
pairs from seen ones, and has the wrong ones on the wrong side, made the fault.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.capture.trail import LAYOUT
from attnscope.checks.course import Course
from attnscope.errors import AttnscopeError

__all__ = [
    "Pairs",
    "is_wrong",
    "line_of_idle_edit",
    "line_of_making",
    "made_wrongly",
    "maker_of",
    "over_pairs",
    "tells_apart",
]

_HIDES = -50.0
"""Below this an added number hides: the weight falls under 1e-21."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Which pairs of a call are wrong: boolean, broadcastable to (batch, heads, queries, keys).

    wrong: those on the wrong side; like: those that they are treated like; unlike: those that they
    should be treated like. ordered: they are wrong by the order of tokens, which a mask that is
    made of the contents of inputs (of padding, of documents) has nothing to do with.
    """

    wrong: Tensor
    like: Tensor
    unlike: Tensor
    ordered: bool = False


def line_of_making(
    course: Course,
    ways: Sequence[Pairs],
    *,
    hides: bool,
    of_inputs: frozenset[int] = frozenset(),
) -> Source:
    """Return the line at fault of a call.

    ways, of_inputs: as of `made_wrongly`. hides: whether any real pair is hidden. Where none is,
    and no mask was made either, it is the line of the softmax or of the kernel.
    """
    applied, pairs = course.hiding[-1] if course.hiding else course.softmax, ways[0]
    made_wrong = made_wrongly(course, ways, of_inputs)
    if made_wrong is not None:
        return course.line(made_wrong, applied)
    if bool(pairs.unlike.any()):
        return course.line(applied)
    apart = Pairs(pairs.like, pairs.like, pairs.wrong)
    made = any(tells_apart(each, course, apart) for _, each in _made(course))
    idle = any(_is_idle_mask(course, each, of_inputs) for each in course.hiding)
    return course.line(applied if made or hides or idle else course.softmax)


def made_wrongly(
    course: Course, ways: Sequence[Pairs], of_inputs: frozenset[int] = frozenset()
) -> Operation | None:
    """Return the first operation that makes a mask with the wrong pairs on the wrong side.

    ways: the wrong pairs against one set of other pairs or another; the first that says anything
    counts. of_inputs: values that depend on contents.
    """
    for pairs in ways:
        for operation, tensor in _made(course):
            by_contents = not of_inputs.isdisjoint(operation.values())
            if pairs.ordered and by_contents and not _knows_order(tensor, course):
                continue
            if is_wrong(tensor, course, pairs):
                return operation
    return None


def maker_of(course: Course, of_inputs: frozenset[int]) -> Operation | None:
    """Return what makes the mask that is applied last, but for its layout."""
    for value in course.joined(course.hiding[-1]):
        maker = course.tape.maker.get(value)
        while maker is not None and maker.name in LAYOUT | {"getitem"}:
            maker = course.tape.maker.get(next(iter(maker.values()), -1))
        if maker is not None and of_inputs.isdisjoint(maker.values()):
            return maker
    return None


def line_of_idle_edit(course: Course) -> Source | None:
    """Return the line that changes a mask in the making in place, and by that nothing in it."""
    edits = [op for op in course.aside if op.target is not None]
    wanted = [v for op in edits if op.target is not None for v in (op.target, op.defines[0])]
    try:
        made = course.tape.run(wanted, wide=False)
    except (AttnscopeError, RuntimeError, TypeError):
        return None
    idle = (
        op.source
        for op in edits
        if op.target is not None and torch.equal(made[op.target], made[op.defines[0]])
    )
    return next((source for source in idle if source is not None), None)


def _knows_order(tensor: Tensor, course: Course) -> bool:
    """Return whether a mask treats a pair otherwise than its mirror image."""
    spread = over_pairs(tensor, course)
    if spread is None or spread.shape[-1] != spread.shape[-2]:
        return True
    rows = spread == spread[..., :1, :]
    return not torch.equal(spread, spread.mT) and not bool(rows.all())


def _is_idle_mask(course: Course, operation: Operation, of_inputs: frozenset[int]) -> bool:
    """Return whether an operation applies a mask that hides nothing, and is made of no contents."""
    if "fill" not in operation.name and operation.name not in {"where", "setitem"}:
        return False
    joined = course.joined(operation)
    masks = [each for each in joined if course.tape.tensors[each].dtype == torch.bool]
    return bool(masks) and of_inputs.isdisjoint(masks)


def _made(course: Course) -> list[tuple[Operation, Tensor]]:
    """Return what the operations aside of the course make: masks in the making, among others."""
    made = [(operation, value) for operation in course.aside for value in operation.defines]
    try:
        tensors = course.tape.run([value for _, value in made], wide=False)
    except (AttnscopeError, RuntimeError, TypeError):
        return []
    held = [
        (operation, course.tape.tensors[value])
        for operation in course.hiding
        for value in course.joined(operation)
        if value in course.tape.inputs
    ]
    return [*((operation, tensors[value]) for operation, value in made), *held]


def is_wrong(tensor: Tensor, course: Course, pairs: Pairs) -> bool:
    """Return whether a mask in the making has the wrong pairs on the wrong side."""
    spread = over_pairs(tensor, course)
    if spread is None or not tells_apart(tensor, course, pairs):
        return False
    wrong = spread[pairs.wrong.expand(spread.shape)]
    apart = spread[pairs.unlike.expand(spread.shape)]
    return bool(wrong.numel()) and bool((wrong != apart[0]).all())


def tells_apart(tensor: Tensor, course: Course, pairs: Pairs) -> bool:
    """Return whether one side of the pairs has one value, and the other side never has it."""
    spread = over_pairs(tensor, course)
    if spread is None:
        return False
    like, unlike = (spread[each.expand(spread.shape)] for each in (pairs.like, pairs.unlike))
    if not (like.numel() and unlike.numel()):
        return False
    apart = unlike.unique()
    if len(apart) != 1 or bool((like == apart[0]).any()):
        return False
    return tensor.dtype == torch.bool or _is_mask_like(like, float(apart[0]))


def _is_mask_like(like: Tensor, apart: float) -> bool:
    """Return whether numbers say yes and no: two values, or one of them so low that it hides."""
    return len(like.unique()) == 1 or apart < _HIDES


def over_pairs(tensor: Tensor, course: Course) -> Tensor | None:
    """Return a tensor as (batch, heads, queries, keys), where its shape is that of a mask."""
    call = course.call
    full = (call.batch, call.heads, call.queries, call.keys)
    if tensor.is_complex() or tensor.dim() == 0 or tensor.numel() < 2:
        return None
    shapes = [tuple(tensor.shape)]
    if tensor.dim() == 2 and tensor.shape == (call.batch, call.keys) and call.batch != call.queries:
        shapes = [(call.batch, 1, 1, call.keys)]
    if tensor.dim() == 3 and tensor.shape[0] == call.batch * call.heads:
        shapes = [(call.batch, call.heads, *tensor.shape[1:])]
    elif tensor.dim() == 3 and tensor.shape[0] == call.batch:
        shapes = [(call.batch, 1, *tensor.shape[1:])]
    for shape in shapes:
        with contextlib.suppress(RuntimeError):
            return tensor.detach().reshape(shape).expand(full)
    return None
