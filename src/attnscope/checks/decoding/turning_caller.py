"""The line that calls a helper function wrongly, where the operation at fault lies in the helper.

A function that turns queries and keys alike is right for the one and wrong for the other only by
what it was given: its caller is at fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.calls.source import Source
from attnscope.checks.defaults import leaves_out
from attnscope.checks.masking.frames import Frame, frames_of_run
from attnscope.differ.sides.side import Side

__all__ = ["line_of_caller", "line_that_hands"]


def line_of_caller(
    run: Callable[[], Any], side: Side, operation: Operation, right: set[int]
) -> Source | None:
    """Return the line that calls the helper around an operation; None: there is no helper.

    run: makes the run of `side` again. right: numbers of operations of that run whose results are
    as they should be.
    """
    frames = frames_of_run(run, operation, side.tape.operations)
    if len(frames) < 2 or frames[0].name in {"forward", "__call__"} or not frames[1].own:
        return None
    if operation.source is not None and leaves_out(operation.source, frames[1].source()):
        return frames[1].source()
    elsewhere = any(
        number in right and other.source == operation.source and other.name == operation.name
        for number, other in enumerate(side.tape.operations)
    )
    return frames[1].source() if elsewhere or _was_given(side, operation, frames[0]) else None


def line_that_hands(
    run: Callable[[], Any], side: Side, operation: Operation, tensor: Tensor
) -> Source | None:
    """Return the line that first hands a tensor to the function around an operation."""
    frames = frames_of_run(run, operation, side.tape.operations)
    takes = [any(_is(each, tensor) for each in frame.arguments.values()) for frame in frames]
    outermost = next((n for n, taken in enumerate(takes) if not taken), len(frames))
    return frames[outermost].source() if 0 < outermost < len(frames) else None


def _is(value: Any, tensor: Tensor) -> bool:
    return (
        isinstance(value, Tensor)
        and value.shape == tensor.shape
        and bool((value.detach() == tensor).all())
    )


def _was_given(side: Side, operation: Operation, helper: Frame) -> bool:
    """Return whether all that an operation takes was made outside, and handed to the helper."""
    given = [each for each in helper.arguments.values() if isinstance(each, Tensor)]
    outside = [v for v in operation.values() if side.tape.maker.get(v) is None]
    tensors = [side.tape.tensors[value].detach() for value in outside]
    return (
        bool(outside)
        and len(outside) == len(list(operation.values()))
        and all(
            any(t.shape == g.shape and bool((t == g.detach()).all()) for g in given)
            for t in tensors
        )
    )
