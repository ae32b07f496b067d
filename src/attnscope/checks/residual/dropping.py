"""Where in a call dropout acts: on q, k or v, on scores, on weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attnscope.calls.program import Operation
from attnscope.capture.trail import LAYOUT
from attnscope.checks.dropouts import Dropped, dropped
from attnscope.checks.operations import ADDS
from attnscope.checks.residual.graph import behind, reached
from attnscope.checks.residual.stream import PRODUCTS
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.side import Side

__all__ = ["Misplaced", "misplaced"]

_KERNELS = ("scaled_dot_product", "flex_attention", "flash", "memory_efficient")
_PRODUCTS = frozenset("matmul rmatmul bmm baddbmm einsum scaled_dot_product_attention".split())
_FURTHEST = 80
_SOFTMAXES = frozenset("softmax log_softmax softmin sigmoid exp".split())


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A dropout on "scores", "q", "k" or "v". zeros: share of its result that is exactly zero."""

    place: str
    dropped: Dropped
    zeros: float


def misplaced(side: Side, located: Located) -> Iterator[Misplaced]:
    """Iterate over dropouts of a call that act before its weights."""
    spots = {
        name: [v for v, _ in located.spots.get(name, [])] for name in ("q", "k", "v", "context")
    }
    if not all(spots.values()):
        return
    found = {each.operation.defines[0]: each for each in dropped(side.tape)}
    starts = {*spots["q"], *spots["k"]}
    through = reached(side.tape, starts)
    inside = [
        op
        for op in behind(side.tape, spots["context"], {*starts, *spots["v"]})
        if not through.isdisjoint(op.defines) and not through.isdisjoint(op.values())
    ]
    softmaxes = [at for at, op in enumerate(inside) if op.name in _SOFTMAXES]
    kernel = any(op.name.startswith(_KERNELS) for op in inside)
    on_weights = kernel and any(op.defines[0] in found for op in inside)
    for at, operation in enumerate(inside):
        each = found.get(operation.defines[0])
        if each is None or operation.name.startswith(_KERNELS):
            continue
        if softmaxes and at < softmaxes[-1]:
            yield _misplaced(side, "scores", each)
        elif softmaxes:
            on_weights = True
    if on_weights:
        return
    for name in ("q", "k", "v"):
        for operation in _lineage(side, spots[name]):
            each = found.get(operation.defines[0])
            if each is not None and _is_of_projection(side, operation):
                yield _misplaced(side, name, each)


def _lineage(side: Side, values: list[int]) -> Iterator[Operation]:
    """Iterate over the operations between q, k or v and the nearest products behind it."""
    waiting, seen = list(values), set[int]()
    while waiting and len(seen) < _FURTHEST:
        operation = side.tape.maker.get(waiting.pop())
        if operation is None or operation.name in PRODUCTS or operation.defines[0] in seen:
            continue
        seen.update(operation.defines)
        yield operation
        waiting.extend(v for v in operation.values() if v not in side.weights)


def _is_of_projection(side: Side, operation: Operation) -> bool:
    """Return whether what is dropped is a projection's result, used for nothing but attention."""
    maker: Operation | None = operation
    for _ in range(_FURTHEST):
        before = [v for v in maker.values() if v not in side.weights] if maker is not None else []
        maker = side.tape.maker.get(before[0]) if before else None
        if maker is None or maker.name not in LAYOUT:
            break
    if maker is None or maker.name not in PRODUCTS:
        return False
    users = side.tape.users.get(operation.defines[0], ())
    return not any(user.name in ADDS or user.name in PRODUCTS - _PRODUCTS for user in users)


def _misplaced(side: Side, place: str, each: Dropped) -> Misplaced:
    made = side.tape.tensors[each.operation.defines[0]]
    zeros = float((made == 0).double().mean()) if made.numel() else 0.0
    return Misplaced(place, each, zeros)
