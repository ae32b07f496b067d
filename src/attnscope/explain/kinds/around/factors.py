"""Constant factors around an attention: of embeddings, of branches, of the residual stream."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.explain.kinds.around.rewriting import after
from attnscope.explain.kinds.around.sides import Edit, OwnPart
from attnscope.explain.reading.flow import CONTRACTIONS, Segment

__all__ = ["embedding_scale", "factor", "is_embedded", "is_projected"]

_ALIKE = 1e-9
"""Share up to which factors, and tensors of runs in float64, are the same."""

_ADDS = frozenset("add iadd radd".split())


def embedding_scale(side: OwnPart) -> Iterator[Edit]:
    """Propose a factor of the embeddings left out, or √d_model where there is none."""
    found = False
    for segment in side.flow.segments:
        if is_embedded(side, segment.start) and not is_projected(side, segment.start):
            for edit in _other_factor(side, segment, "embedding-scale"):
                found = True
                yield edit
    if side.mends or found:
        return
    for op in side.flow.operations:
        made = op.defines[0]
        if not _looks_up(side, op):
            continue
        size = side.flow.values[made].shape[-1]
        for text, number in {"√d_model": size**0.5, "1/√d_model": size**-0.5}.items():
            scaled = after(op, partial(_times, number))
            told = f"embeddings times {number:.6g} = {text} where the reference has no factor"
            yield side.edited("embedding-scale", told, scaled)


def factor(side: OwnPart) -> Iterator[Edit]:
    """Propose a constant factor of a branch or stream left out, or that of the other side."""
    for segment in side.flow.segments:
        if is_projected(side, segment.start) or not is_embedded(side, segment.start):
            yield from _other_factor(side, segment, "factor")


def _times(number: float, tensor: Tensor) -> Tensor:
    return tensor * number


def _other_factor(side: OwnPart, segment: Segment, key: str) -> Iterator[Edit]:
    """Propose a factor left out, or one of those that the other side has."""
    number = _factor(side, segment)
    if number is None or number in {0.0, -1.0}:  # left out, subtracted: other kinds
        return
    size = side.flow.values[segment.end].shape[-1]
    told = _told(number, size)
    if side.mends and number == 2 and _is_added(side, segment.end):
        text = f"residual added twice where the reference adds it once, {segment.place}"
        yield side.without(segment, "residual-doubled", text, "without")
        return
    if side.mends:
        text = f"a factor of {told} where the reference has none, {segment.place}"
    else:
        text = f"no factor where the reference has {told}, {segment.place}"
    yield side.without(segment, key, text, "without")
    if side.mends or side.other is None:
        return
    for theirs in _factors(OwnPart(side.scene, side.other, mends=True)):
        if theirs and abs(theirs - number) > _ALIKE * abs(number):
            text = f"a factor of {_told(theirs, size)} where the reference has {told}"
            function = partial(_times, theirs)
            way = f"{theirs:.6g} for {number:.6g}"
            yield side.instead(segment, function, key, f"{text}, {segment.place}", way)


def _factors(side: OwnPart) -> list[float]:
    """Return the constant factors of a part."""
    found = (_factor(side, segment) for segment in side.flow.segments)
    return sorted({number for number in found if number is not None})


def _factor(side: OwnPart, segment: Segment) -> float | None:
    """Return the number that a segment multiplies with; None: it does more."""
    if segment.projects:
        return None
    start, end = side.flow.values[segment.start], side.flow.values[segment.end]
    at = start.abs().argmax()
    size = float(start.flatten()[at])
    if size == 0:
        return None
    number = float(end.flatten()[at]) / size
    gap = float((start * number - end).abs().max())
    return number if gap <= _ALIKE * float(end.abs().max()) else None


def _told(number: float, size: int) -> str:
    for name, value in {f"√{size}": size**0.5, f"1/√{size}": size**-0.5}.items():
        if abs(number - value) <= 1e-3 * value:
            return f"{number:.6g} = {name}"
    return f"{number:.6g}"


def _is_added(side: OwnPart, value: int) -> bool:
    """Return whether something else is added to a value."""
    return any(
        op.name.strip("_") in _ADDS and value in op.values() and len(set(op.values())) > 1
        for op in side.flow.operations
    )


def is_projected(side: OwnPart, value: int) -> bool:
    """Return whether a value follows from a projection or an earlier attention."""
    if value in side.part.given:
        return True
    made = side.part.program.needed((value,), side.part.given)
    return any(op.name in CONTRACTIONS or set(op.needs) & set(side.part.given) for op in made)


def is_embedded(side: OwnPart, value: int) -> bool:
    """Return whether a value follows from rows that were looked up in a table."""
    made = side.part.program.needed((value,), side.part.given)
    return any(_looks_up(side, op) for op in made)


def _looks_up(side: OwnPart, op: Operation) -> bool:
    if op.name == "embedding":
        return True
    made = op.defines[0]
    chosen = op.name in {"getitem", "index_select"} and made in side.flow.activations
    return chosen and not side.flow.operands(op)
