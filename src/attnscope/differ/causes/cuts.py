"""Why gradients differ where outputs don't: the way back is cut, or replaced."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from attnscope.calls.program import Operation
from attnscope.differ.result import FirstDifference
from attnscope.differ.walk.backward import Backward
from attnscope.differ.walk.gradients import leaves_of, tape_gradients
from attnscope.differ.weights import WeightMap
from attnscope.errors import AttnscopeError
from attnscope.explain import Explanation

__all__ = ["explain_gradient", "ungraded"]

_CUTS = frozenset("detach detach_ data".split())


def explain_gradient(backward: Backward, pairs: WeightMap | None, what: str) -> Explanation | None:
    """Return the change of the candidate's way back that makes all gradients agree.

    what: whose gradient differs first, in words.
    """
    side = backward.sides[0]
    outputs = [pair.sides[0] for pair in backward.outputs]
    cotangents = backward.cotangents()
    if not side.is_faithful:
        return None

    def remains(edit: Callable[[Operation], Operation] | None) -> float | None:
        with contextlib.suppress(RuntimeError, AttnscopeError, TypeError):
            wide = tape_gradients(side, outputs, cotangents, edit)
            return backward.remains(wide, pairs)
        return None

    if backward.of(0).own:
        left = remains(None)
        if left is not None:
            return Explanation("wrong-backward", _WRONG, left)
    cuts = [op for op in side.tape.exact.operations if _cuts(op)]
    for chosen in ([cut] for cut in cuts):
        left = remains(_opening(chosen))
        if left is not None:
            return _named(backward, chosen, left, what)
    left = remains(_opening(cuts)) if len(cuts) > 1 else None
    return _named(backward, cuts, left, what) if left is not None else None


def ungraded(backward: Backward) -> FirstDifference | None:
    """Return the difference where the reference's output has a gradient and the candidate's none.

    A function that is written in NumPy can have none, and is not held to it.
    """
    side = backward.sides[0]
    if side.subject.wants_arrays or backward.reached(0) or not backward.reached(1):
        return None
    if not leaves_of(side):
        return None
    cut = next((op for op in side.tape.operations if not op.graded), None)
    text = "the forward runs without gradients"
    if cut is not None and cut.source is not None:
        text += f", first in {cut.name} at {cut.source.file}:{cut.source.line}"
    explanation = Explanation("gradient-stopped", f"{text}, where the reference's has them", 0.0)
    source = cut.source if cut is not None else None
    return FirstDifference(
        "grad.output", None, "", source, (), None, 1.0, 1.0, 0.0, "numbers", explanation
    )


def _named(backward: Backward, chosen: Sequence[Operation], left: float, what: str) -> Explanation:
    """Tell a way back that is cut from one that somebody wrote by hand: that brings something."""
    by_hand = all(operation.name not in _CUTS for operation in chosen)
    if by_hand and backward.of(0).own and backward.reaches():
        return Explanation("wrong-backward", _WRONG, left)
    return Explanation("gradient-stopped", _cut_text(chosen, what), left)


_WRONG = "its own backward does not return the derivative of what its forward computes"


def _cuts(operation: Operation) -> bool:
    return operation.name in _CUTS or not operation.graded


def _opening(chosen: Sequence[Operation]) -> Callable[[Operation], Operation]:
    """Return the edit that lets the gradient through the chosen operations."""
    numbers = {operation.defines[0] for operation in chosen}

    def edit(operation: Operation) -> Operation:
        if operation.defines[0] not in numbers:
            return operation
        if operation.name in _CUTS:
            return replace(operation, function=_first, graded=True)
        return replace(operation, graded=True)

    return edit


def _first(*args: Any, **kwargs: Any) -> Any:
    del kwargs
    return args[0]


def _cut_text(chosen: Sequence[Operation], what: str) -> str:
    named = []
    for operation in chosen:
        word = operation.name if operation.name in _CUTS else f"no_grad around {operation.name}"
        place = operation.source
        named.append(f"{word} at {place.file}:{place.line}" if place is not None else word)
    places = ", ".join(dict.fromkeys(named))
    return f"the gradient of {what} stops at {places}, where the reference's goes on"
