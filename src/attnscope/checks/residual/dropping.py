"""Where in a call dropout acts: on q, k or v, on scores, on weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from attnscope.checks.dropouts import Dropped, dropped
from attnscope.checks.residual.graph import behind, reached
from attnscope.differ.sides.located import Located
from attnscope.differ.sides.side import Side

__all__ = ["Misplaced", "misplaced"]

_KERNELS = ("scaled_dot_product", "flex_attention", "flash", "memory_efficient")
_SOFTMAXES = frozenset("softmax log_softmax _softmax softmin sigmoid exp".split())


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A dropout on "scores", "q", "k" or "v". zeros: share of its result that is exactly zero."""

    place: str
    dropped: Dropped
    zeros: float


def misplaced(side: Side, located: Located) -> Iterator[Misplaced]:
    """Iterate over dropouts of a call that act before its weights."""
    spots = {name: [v for v, _ in located.spots.get(name, [])] for name in ("q", "k", "v", "context")}
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
        received = located.received.get(name)
        if received is None:
            continue
        from_there = reached(side.tape, [received])
        for operation in behind(side.tape, spots[name], [received]):
            each = found.get(operation.defines[0])
            if each is not None and operation.defines[0] in from_there:
                yield _misplaced(side, name, each)


def _misplaced(side: Side, place: str, each: Dropped) -> Misplaced:
    made = side.tape.tensors[each.operation.defines[0]]
    zeros = float((made == 0).double().mean()) if made.numel() else 0.0
    return Misplaced(place, each, zeros)
