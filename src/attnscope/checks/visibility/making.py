"""The line at which a mask goes wrong: where it is made, where it is applied, or where none is.

What is wrong is a set of pairs (query, key): seen though they should be hidden, or the reverse. Every
operation that a mask is made by is looked at in order: the first whose result tells hidden pairs from
seen ones, and has the wrong ones on the wrong side, made the fault.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.course import Course
from attnscope.errors import AttnscopeError

__all__ = ["Pairs", "line_of_making"]

_HIDES = -50.0
"""Below this an added number hides: the weight falls under 1e-21."""


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Which pairs of a call are wrong: boolean, broadcastable to (batch, heads, queries, keys).

    wrong: those on the wrong side; like: those that they are treated like; unlike: those that they
    should be treated like.
    """

    wrong: Tensor
    like: Tensor
    unlike: Tensor


def line_of_making(course: Course, pairs: Pairs, *, missing: bool = False) -> Source:
    """Return the line at fault of a call.

    missing: no pair is treated as these should be, so that there is no mask to be wrong: then it is
    the line of the softmax, or of the kernel.
    """
    if missing or not bool(pairs.unlike.any()):
        return course.line(course.softmax)
    found = _first_wrong(course, pairs)
    applied = course.hiding[-1] if course.hiding else course.softmax
    return course.line(found, applied)


def _first_wrong(course: Course, pairs: Pairs) -> Operation | None:
    values = [value for operation in course.aside for value in operation.defines]
    if not values:
        return None
    try:
        tensors = course.tape.run(values, wide=False)
    except (AttnscopeError, RuntimeError, TypeError):
        return None
    for operation in course.aside:
        for value in operation.defines:
            if _is_wrong(tensors[value], course, pairs):
                return operation
    return None


def _is_wrong(tensor: Tensor, course: Course, pairs: Pairs) -> bool:
    """Return whether a mask in the making has the wrong pairs on the wrong side."""
    spread = _over_pairs(tensor, course)
    if spread is None:
        return False
    shape = spread.shape
    wrong, like, unlike = (
        spread[each.expand(shape)] for each in (pairs.wrong, pairs.like, pairs.unlike)
    )
    if not (wrong.numel() and like.numel() and unlike.numel()):
        return False
    apart = unlike.unique()
    if len(apart) != 1 or bool((like == apart[0]).any()):
        return False
    if tensor.dtype != torch.bool and not _is_mask_like(like, float(apart[0])):
        return False
    return bool((wrong != apart[0]).all())


def _is_mask_like(like: Tensor, apart: float) -> bool:
    """Return whether numbers say yes and no: two values, or one of them so low that it hides."""
    return len(like.unique()) == 1 or apart < _HIDES


def _over_pairs(tensor: Tensor, course: Course) -> Tensor | None:
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
