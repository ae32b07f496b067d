"""A recorded program in float64: what the same operations give without rounding.

Two computations that agree here differ by rounding alone, whatever their types; two that differ
here differ in what they compute. Casts to a floating type become casts to float64, tensors from
outside are widened (their own values stay what they are), kernels run in float64, or in float32
where they refuse it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnscope.calls.held import Held
from attnscope.calls.program import Operation, Program, map_leaves

__all__ = ["exact", "widened"]

_CASTS = frozenset("float half bfloat16 double type type_as to autocast".split())
"""Operations that change the type; those that don't change a floating type are left alone."""

_DRAWS = frozenset("rand_like randn_like normal uniform exponential cauchy log_normal".split())
"""Operations that draw other numbers in float64 than in float32; dropout draws the same."""


def exact(program: Program) -> Program:
    """Return `program` in float64; what it drew at random it draws again."""
    inputs = {index: Held(widened(held.tensor)) for index, held in program.inputs.items()}
    return Program(inputs, tuple(_exact_operation(op) for op in program.operations))


def widened(tensor: Tensor) -> Tensor:
    """Return `tensor` in float64 (complex128) where it holds real (complex) numbers."""
    if tensor.is_floating_point():
        return tensor.double()
    return tensor.to(torch.complex128) if tensor.is_complex() else tensor


def _exact_operation(operation: Operation) -> Operation:
    if operation.name in _CASTS:
        return replace(operation, function=_widening(operation.function), autocast=None)
    draws = operation.name.removesuffix("_") in _DRAWS
    way = _in_float32 if draws else _if_possible
    return replace(
        operation,
        function=way(operation.function),
        args=map_leaves(operation.args, _wide_type),
        kwargs=map_leaves(dict(operation.kwargs), _wide_type),
        autocast=None,
    )


def _if_possible(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function`, run in float32 where its kernel refuses float64."""

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (RuntimeError, NotImplementedError):
            return _in_float32(function)(*args, **kwargs)

    return run


def _in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        narrow, named = map_leaves((args, kwargs), _narrowed)
        return map_leaves(function(*narrow, **named), _widened_leaf)

    return run


def _narrowed(leaf: Any) -> Any:
    return leaf.float() if isinstance(leaf, Tensor) and leaf.dtype == torch.float64 else leaf


def _widened_leaf(leaf: Any) -> Any:
    return widened(leaf) if isinstance(leaf, Tensor) else leaf


def _wide_type(leaf: Any) -> Any:
    if isinstance(leaf, torch.dtype):
        if leaf.is_floating_point:
            return torch.float64
        return torch.complex128 if leaf.is_complex else leaf
    return leaf


def _widening(cast: Callable[..., Any]) -> Callable[..., Any]:
    """Return `cast` with float64 in the place of any other floating type."""

    def widen(*args: Any, **kwargs: Any) -> Any:
        output = cast(*args, **kwargs)
        given = args[0]
        if isinstance(output, Tensor) and (output.is_floating_point() or output.is_complex()):
            kept = given.is_floating_point() or given.is_complex()
            return widened(given) if kept and output.shape == given.shape else widened(output)
        return output

    return widen
