"""Which pieces of a part are norms, told by their operations.

A norm may be one call ("layer_norm") or spelled out, as Hugging Face does: a mean of squares, an
epsilon, a root and a product.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath

from torch import Tensor

from attnscope.explain.kinds.around.sides import OwnPart
from attnscope.explain.part import Part
from attnscope.explain.reading.flow import CONTRACTIONS, Segment

__all__ = ["as_function", "count_norms", "described", "norm_segments"]

WHOLE = frozenset("layer_norm native_layer_norm rms_norm group_norm normalize".split())
_ROOTS = frozenset("rsqrt sqrt norm vector_norm std linalg_vector_norm linalg_norm".split())
_POWERS = (-0.5, 0.5)
_ADDS = frozenset("add radd iadd sub".split())


def norm_segments(side: OwnPart) -> list[Segment]:
    """Return the segments that are one norm each, with and without their weights."""
    found = []
    for segment in side.flow.segments:
        start = side.flow.values[segment.start]
        if start.ndim == 0 or start.shape[-1] == 1:  # a mean or a root on its own
            continue
        roots = sum(_is_root(op) for op in segment.operations)
        if roots != 1 or not segment.names.isdisjoint(CONTRACTIONS):
            continue
        joined = any(_joins(side, op, start) for op in segment.operations)
        if not joined:
            found.append(segment)
    return found


def _is_root(op: object) -> bool:
    name = str(getattr(op, "name", "")).strip("_")
    if name in WHOLE | _ROOTS:
        return True
    args = getattr(op, "args", ())
    return name in {"pow", "rpow"} and any(arg in _POWERS for arg in args[1:] if _is_number(arg))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _joins(side: OwnPart, op: object, start: Tensor) -> bool:
    """Return whether an operation adds what enters the segment to what it makes: a residual."""
    name, values = str(getattr(op, "name", "")).strip("_"), side.flow.values
    if name not in _ADDS - {"sub"}:
        return False
    operands = side.flow.operands(op)  # type: ignore[arg-type]
    return len(operands) > 1 and all(values[value].shape == start.shape for value in operands)


def count_norms(part: Part) -> int:
    """Return how many norms the end of the whole run follows from that a part is of."""
    program = part.program
    last = program.operations[-1].defines[:1] if program.operations else ()
    return sum(_is_root(op) for op in program.needed(last, {}))


def described(side: OwnPart, segment: Segment) -> str:
    """Return a norm in words: its sort, its module or line of code."""
    names = segment.names
    source = segment.operations[-1].source
    if segment.parameters:
        where = segment.place
    else:
        where = "" if source is None else f"{PurePath(source.file).name}:{source.line}"
    centred = not names.isdisjoint({"layer_norm", "native_layer_norm", "sub", "var", "std"})
    sort = "LayerNorm" if centred else "RMSNorm"
    size = side.flow.values[segment.start].shape[-1]
    return f"{sort} {where} over {size} features".replace("  ", " ")


def as_function(side: OwnPart, segment: Segment) -> Callable[[Tensor], Tensor]:
    """Return what a segment does, as a function of what enters it."""

    def norm(tensor: Tensor) -> Tensor:
        return side.flow.run(given={segment.start: tensor}, wanted=segment.end)

    return norm
