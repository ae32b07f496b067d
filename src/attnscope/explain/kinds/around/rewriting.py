"""Recorded operations with something done before or after them, or in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor

from attnscope.calls.program import Operation, Value, map_leaves

__all__ = ["after", "before", "passing", "replaced", "with_constant", "with_operand"]


def passing(op: Operation, value: int) -> Operation:
    """Return an operation that defines what `op` does, and returns another value as it is."""
    return replaced(op, value, lambda tensor: tensor)


def replaced(op: Operation, value: int, function: Callable[[Tensor], Tensor]) -> Operation:
    """Return an operation that defines what `op` does, by a function of another value."""
    return replace(
        op,
        name="alias",
        function=function,
        args=(Value(value),),
        kwargs={},
        needs=(value,),
        target=None,
        random=None,
    )


def after(op: Operation, change: Callable[[Tensor], Tensor]) -> Operation:
    """Return `op` with `change` made to its result."""
    return replace(op, function=lambda *args, **kwargs: change(op.function(*args, **kwargs)))


def before(op: Operation, value: int, change: Callable[[Tensor], Tensor]) -> Operation:
    """Return `op` with `change` made to its operand `value`."""
    marks = map_leaves(
        [op.args, dict(op.kwargs)], lambda leaf: isinstance(leaf, Value) and leaf.index == value
    )

    def run(*args: Any, **kwargs: Any) -> Any:
        changed = [_changed(each, mark, change) for each, mark in zip(args, marks[0], strict=True)]
        named = {key: _changed(each, marks[1][key], change) for key, each in kwargs.items()}
        return op.function(*changed, **named)

    return replace(op, function=run)


def with_operand(op: Operation, old: int, new: int) -> Operation:
    """Return `op` with another value in the place of one of its operands."""

    def change(leaf: Any) -> Any:
        return Value(new) if isinstance(leaf, Value) and leaf.index == old else leaf

    return replace(
        op,
        args=map_leaves(op.args, change),
        kwargs=map_leaves(dict(op.kwargs), change),
        needs=(*op.needs, new),
    )


def _changed(leaf: Any, mark: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(leaf, (list, tuple)) and isinstance(mark, (list, tuple)):
        return [_changed(each, own, change) for each, own in zip(leaf, mark, strict=True)]
    return change(leaf) if mark is True and isinstance(leaf, Tensor) else leaf


def with_constant(op: Operation, old: float, new: float) -> Operation:
    """Return `op` with another number in the place of one of its constants."""

    def change(leaf: Any) -> Any:
        return new if isinstance(leaf, float) and leaf == old else leaf

    return replace(op, args=map_leaves(op.args, change), kwargs=map_leaves(dict(op.kwargs), change))
