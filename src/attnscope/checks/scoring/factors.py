"""The numbers that scores are multiplied by, each with the operation that does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attnscope.calls.call import Call
from attnscope.calls.program import Operation, Value
from attnscope.checks.course import course_of
from attnscope.checks.operations import DIVIDES, MULTIPLIES
from attnscope.checks.scoring.reading import path_back
from attnscope.checks.subject.subject import Subject

__all__ = ["Factor", "factors_of", "kernel_scale", "numbers_written_in"]

_KERNEL = "scaled_dot_product_attention"


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """One number that the scores of a call are multiplied by.

    operation: what does it; by_default: a kernel that was given no scale of its own.
    """

    number: float
    operation: Operation
    by_default: bool = False


def factors_of(subject: Subject, call: Call) -> tuple[Factor, ...]:
    """Return the factors of the scores of a call, on q and k first, that are single numbers."""
    course = course_of(subject, call)
    if course is None:
        return ()
    found: list[Factor] = []
    for side in ("q", "k"):
        for value, _ in course.located.spots[side][:1]:
            found += _behind(subject, value, course.located.weights)
    for operation in course.main:
        if operation is course.softmax and operation.name != _KERNEL:
            break
        number = kernel_scale(operation, call)
        if number is not None:
            given = operation.kwargs.get("scale")
            found.append(Factor(number, operation, by_default=given is None))
        else:
            found += _of(subject, operation)
    return tuple(found)


def numbers_written_in(subject: Subject, function: str) -> frozenset[float]:
    """Return the single numbers that a function, or a method beside it, multiplies tensors by."""
    around = function.rpartition(".")[0]
    return frozenset(
        factor.number
        for operation in subject.base.tape.operations
        if operation.source is not None
        and (operation.source.function == function or _is_beside(operation.source.function, around))
        for factor in _of(subject, operation)
    )


def _is_beside(function: str, around: str) -> bool:
    return bool(around) and function.startswith(f"{around}.")


def kernel_scale(operation: Operation, call: Call) -> float | None:
    """Return the scale that a fused kernel applies itself; None: it is no such kernel."""
    if operation.name != _KERNEL:
        return None
    given = operation.kwargs.get("scale")
    return float(given) if isinstance(given, int | float) else call.head_dim**-0.5


def _behind(subject: Subject, value: int, weights: Any) -> Iterator[Factor]:
    for operation in path_back(subject, value, weights):
        yield from _of(subject, operation)


def _of(subject: Subject, operation: Operation) -> Iterator[Factor]:
    """Return the number that an operation multiplies a tensor by, where it is one."""
    if operation.name == "baddbmm" and isinstance(operation.kwargs.get("alpha"), int | float):
        yield Factor(float(operation.kwargs["alpha"]), operation)
    if operation.name not in MULTIPLIES | DIVIDES or len(operation.args) < 2:
        return
    numbers = [n for each in operation.args[:2] if (n := _number(subject, each)) is not None]
    if len(numbers) != 1 or not numbers[0]:
        return
    divides = operation.name in DIVIDES
    if divides and _number(subject, operation.args[0]) is not None:
        return
    yield Factor(1.0 / numbers[0] if divides else numbers[0], operation)


def _number(subject: Subject, argument: Any) -> float | None:
    if isinstance(argument, bool):
        return None
    if isinstance(argument, int | float):
        return float(argument)
    if isinstance(argument, Value):
        tensor = subject.base.tape.tensors[argument.index]
        if tensor.numel() == 1 and not tensor.is_complex():
            return float(tensor.detach())
    return None
