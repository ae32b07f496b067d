"""A backward of one's own around attention, compared with the derivative of its forward."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from attnscope.calls.call import Call
from attnscope.calls.source import Source
from attnscope.checks.course import course_of
from attnscope.checks.residual.graph import STEPS, behind, node_of
from attnscope.checks.subject.subject import Subject
from attnscope.checks.unreadable import UNREADABLE

__all__ = ["OwnBackward", "own_backwards"]

_STEP = 1e-4
"""Of the size of q, k or v: the error of a central difference is its square."""

_OFF = 0.02
"""Share of a derivative by which a backward must be off: far above rounding in half precision."""

_REPLACED = STEPS | frozenset("acos arccos asin arcsin acosh arccosh atanh arctanh".split())
"""Steps, and what is infinitely steep somewhere: these are given another gradient on purpose."""

_NOTHING = 1e-9
"""A derivative below that share of the largest one is none."""


@dataclass(frozen=True, slots=True, eq=False)
class OwnBackward:
    """What the backward of a `torch.autograd.Function` says of q, k or v, and what is true.

    said, true: the derivative along one direction, by the backward and by central differences of
    the forward in float64.
    """

    call: Call
    function: str
    stage: str
    said: float
    true: float
    source: Source | None


def own_backwards(subject: Subject) -> Iterator[OwnBackward]:
    """Iterate over functions with a backward of their own that is not that of what they compute.

    Functions that are given another gradient on purpose (straight through, reversed, bounded) hold
    no attention, or something inside whose own gradient is of no use, and aren't looked at.
    """
    if not subject.base.is_faithful:
        return
    for located in subject.base.located:
        end = _result(subject, located.call)
        if end is None:
            continue
        for stage in ("q", "k", "v"):
            values = [value for value, _ in located.spots.get(stage, [])]
            start = _given(subject, values[0]) if len(values) == 1 else None
            found = _compared(subject, start, end) if start is not None else None
            if found is not None:
                name, source = _named(subject.base.tape.tensors[end])
                yield OwnBackward(located.call, name, stage, *found, source)


def _result(subject: Subject, call: Call) -> int | None:
    """Return the value that a function with its own backward returns around a call."""
    course = course_of(subject, call)
    if course is None or course.product is None or course.product.graded:
        return None
    tape, reached = subject.base.tape, set(course.product.defines)
    inside = [*course.main, *(op for op in behind(tape, reached) if not op.graded)]
    if any(operation.name.rstrip("_") in _REPLACED for operation in inside):
        return None
    for operation in tape.operations:
        if reached.isdisjoint(operation.values()):
            continue
        reached.update(operation.defines)
        if operation.name.rstrip("_") in _REPLACED:
            return None
        for value in operation.defines:
            if isinstance(node_of(tape.tensors[value]), BackwardCFunction):
                return value
    return None


def _given(subject: Subject, value: int) -> int | None:
    """Return what a function was given that q, k or v are laid out from inside of it."""
    tape = subject.base.tape
    operation = tape.maker.get(value)
    while operation is not None and not operation.graded:
        before = [v for v in operation.values() if tape.tensors[v].requires_grad]
        if len(before) != 1:
            return None
        value = before[0]
        operation = tape.maker.get(value)
    return value


def _compared(subject: Subject, start: int, end: int) -> tuple[float, float] | None:
    """Return both derivatives of a result along a direction in which they differ; None: in none."""
    tape = subject.base.tape
    given, result = tape.tensors[start], tape.tensors[end]
    if not given.requires_grad:
        return None
    generator = torch.Generator().manual_seed(0)
    cotangent = torch.randn(result.shape, generator=generator, dtype=torch.float64)
    try:
        grads: tuple[Tensor | None, ...] = torch.autograd.grad(
            result, given, cotangent.to(result), retain_graph=True, allow_unused=True
        )
        said = torch.zeros_like(given) if grads[0] is None else grads[0].detach()
        drawn = torch.randn(given.shape, generator=generator, dtype=torch.float64)
        for way in (said.double(), drawn):
            if not bool(way.any()):
                continue
            unit = way / way.norm()
            true = _difference(subject, start, end, unit, cotangent)
            told = float((said.double() * unit).sum())
            size = max(abs(true), abs(told))
            least = _OFF * float(said.double().norm()) / given.numel() ** 0.5
            if abs(true - told) > max(_OFF * size, least, _NOTHING):
                return told, true
    except UNREADABLE:
        return None
    return None


def _difference(subject: Subject, start: int, end: int, way: Tensor, cotangent: Tensor) -> float:
    """Return the derivative of a weighted result along a way, by central differences."""
    tape = subject.base.tape
    at = tape.as_made([start])[start]
    step = _STEP * max(float(at.norm()), 1.0)
    ends = [
        tape.run([end], {start: at + sign * step * way}, wide=True)[end] for sign in (1.0, -1.0)
    ]
    return float(((ends[0] - ends[1]) * cotangent).sum()) / (2 * step)


def _named(result: Tensor) -> tuple[str, Source | None]:
    """Return the name of the function that made a result, and the line of its backward."""
    kind = getattr(type(node_of(result)), "_forward_cls", None)
    if kind is None:
        return "a function", None
    try:
        file = inspect.getsourcefile(kind.backward)
        line = inspect.getsourcelines(kind.backward)[1]
    except (TypeError, OSError):
        return kind.__name__, None
    if file is None:
        return kind.__name__, None
    while linecache.getline(file, line).strip().startswith("@"):
        line += 1
    text = linecache.getline(file, line).strip()
    return kind.__name__, Source(file, line, kind.backward.__qualname__, text)
