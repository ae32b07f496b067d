"""Tensors on the way from a projection to q, k or v, in the canonical layout of the stage.

Rotary embedding, norms and dropout keep the shape of what they change. So the tensor before each is
known in the canonical layout by the layout of what comes after, whatever the code calls it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import torch
from torch import Tensor

from attnscope.explain.part import Part
from attnscope.explain.reading.flow import Flow, flow_of

__all__ = ["Layout", "Level", "Piece", "layout_of", "levels", "pieces", "with_heads"]

_ORDERS = tuple(permutations(range(4)))
_JOINS = frozenset("cat concat concatenate".split())
_SUMS = 1e-12
"""How far the sums of the same numbers in another order may be apart."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A canonical tensor times `factor`, its axes in `order`, joined to `shape`.

    A factor is there where a scale of q is counted to the scores.
    """

    order: tuple[int, ...]
    shape: tuple[int, ...]
    factor: float = 1.0

    def write(self, canonical: Tensor) -> Tensor:
        """Return a canonical tensor in the model's own layout."""
        laid = canonical.permute(self.order).reshape(self.shape)
        return laid if self.factor == 1 else laid * self.factor

    def read(self, own: Tensor, sizes: tuple[int, ...]) -> Tensor:
        """Return a tensor in the model's own layout as a canonical one of `sizes`."""
        split = own.reshape([sizes[axis] for axis in self.order])
        split = split if self.factor == 1 else split / self.factor
        return split.permute([self.order.index(axis) for axis in range(len(sizes))])


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One tensor on the way to a stage.

    tensor: canonical; kv heads are there once. value, layout: where it lies in the model's run;
    None: it is the stage itself. flow: of the part that it belongs to; heads: those of the stage.
    """

    flow: Flow | None
    tensor: Tensor
    value: int | None = None
    layout: Layout | None = None
    heads: int | None = None

    def onward(self, tensor: Tensor) -> Tensor:
        """Return the stage that follows from another tensor at this level."""
        if self.flow is None or self.value is None or self.layout is None:
            return tensor
        made = self.flow.run(given={self.value: self.layout.write(tensor)})
        return made if self.heads is None else with_heads(made, self.heads)


def with_heads(tensor: Tensor, heads: int) -> Tensor:
    """Return a canonical tensor with each kv head repeated, where a stage is given so."""
    if tensor.ndim != len(_ORDERS[0]) or not 0 < tensor.shape[1] < heads:
        return tensor
    if heads % tensor.shape[1]:
        return tensor
    return tensor.repeat_interleave(heads // tensor.shape[1], 1)


def layout_of(own: Tensor, canonical: Tensor, factor: float = 1.0) -> Layout | None:
    """Return how `canonical` lies in `own`, told by its values; None: it does not."""
    if own.numel() != canonical.numel() or own.is_complex() or canonical.ndim != len(_ORDERS[0]):
        return None
    whole, most = factor * float(canonical.sum()), factor * float(canonical.abs().sum())
    if abs(float(own.sum()) - whole) > _SUMS * abs(most):
        return None  # other numbers, in whatever order
    near = 0.0 if factor == 1 else _SUMS * float(own.abs().max())
    for order in _ORDERS:
        layout = Layout(order, tuple(own.shape), factor)
        if bool(((layout.write(canonical) - own).abs() <= near).all()):
            return layout
    return None


def levels(stage: Tensor, part: Part | None) -> list[Level]:
    """Return the stage itself and the levels before it, from the stage back to its projection."""
    if part is None or stage.ndim != len(_ORDERS[0]):
        return [Level(None, stage)]
    flow = flow_of(part)
    known: dict[int, list[Level]] = flow.known
    if stage.shape[1] not in known:
        found = []
        for start in _starts(flow, part.run()):
            found += [start, *_before(flow, start)]
        known[stage.shape[1]] = [replace(level, heads=stage.shape[1]) for level in found]
    return [replace(Level(None, stage), heads=stage.shape[1]), *known[stage.shape[1]]]


def _starts(flow: Flow, stage: Tensor) -> Iterator[Level]:
    """Find the values that are the stage in another layout, or its kv heads before repetition."""
    heads, held = stage.shape[1], flow.values.get(flow.part.wanted)  # None: an input of the model
    factor = 1.0
    if held is not None and held.numel() == stage.numel() and not held.is_complex():
        ratio = float(held.abs().sum()) / max(float(stage.abs().sum()), 1e-300)
        factor = 1.0 if abs(ratio - 1) < _SUMS else ratio
    sizes = [group for group in range(1, heads + 1) if heads % group == 0]
    for group in sizes:
        first = stage[:, ::group]
        if group > 1 and not torch.equal(first.repeat_interleave(group, 1), stage):
            continue
        level = _lying(flow, first, factor)
        if level is not None:
            yield level


def _lying(flow: Flow, canonical: Tensor, factor: float = 1.0) -> Level | None:
    """Return the earliest value that holds a canonical tensor."""
    for value in sorted(flow.activations):
        tensor = flow.values[value]
        layout = layout_of(tensor, canonical, factor)
        if layout is not None:
            return Level(flow, canonical, value, layout)
    return None


def _before(flow: Flow, level: Level) -> Iterator[Level]:
    """Iterate over the levels before one, nearest first."""
    assert level.layout is not None  # noqa: S101  every level from `_lying` has one
    ways = [segment for segment in flow.segments if not segment.projects]
    reached, waiting = {level.value}, [level]
    while waiting:
        now = waiting.pop(0)
        same = _holders(flow, now)
        for segment in sorted(ways, key=lambda segment: -segment.start):
            if segment.end not in same or segment.start in reached:
                continue
            layout = same[segment.end]
            canonical = layout.read(flow.values[segment.start], tuple(now.tensor.shape))
            before = _lying(flow, canonical, layout.factor) or Level(
                flow, canonical, segment.start, layout
            )
            if before.value in reached:
                continue
            reached |= {segment.start, before.value}
            waiting.append(before)
            yield before


def _holders(flow: Flow, level: Level) -> dict[int, Layout]:
    """Return all values that hold the tensor of a level, each with its layout."""
    found = {}
    factor = 1.0 if level.layout is None else level.layout.factor
    for value in flow.activations:
        layout = layout_of(flow.values[value], level.tensor, factor)
        if layout is not None:
            found[value] = layout
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Features of a stage that are computed apart and joined to the others, as latent attention is.

    features: which ones; heads: how many the piece has, each of which several heads of the stage
    share. way: levels of the piece, from where it is joined back to its projection.
    """

    features: slice
    heads: int
    way: tuple[Level, ...]

    def of(self, stage: Tensor) -> Tensor:
        """Return the piece of a stage."""
        return stage[:, :: stage.shape[1] // self.heads, :, self.features]


def pieces(stage: Tensor, part: Part | None) -> Iterator[Piece]:
    """Iterate over the pieces that the features of a stage are joined from."""
    if part is None or stage.ndim != len(_ORDERS[0]):
        return
    flow = flow_of(part)
    for start in _starts(flow, part.run()):
        for value, layout in _holders(flow, start).items():
            op = flow.maker.get(value)
            if op is None or op.name not in _JOINS or layout.order[-1] != len(_ORDERS[0]) - 1:
                continue
            begin = 0
            for operand in flow.operands(op):
                end = begin + flow.values[operand].shape[-1]
                whole = start.tensor[..., begin:end]
                found = _whole_or_shared(flow, whole, layout.factor)
                if found is not None:
                    way = (found, *_before(flow, found))
                    way = tuple(replace(level, heads=stage.shape[1]) for level in way)
                    yield Piece(slice(begin, end), found.tensor.shape[1], way)
                begin = end


def _whole_or_shared(flow: Flow, piece: Tensor, factor: float) -> Level | None:
    """Return where a piece lies, or the one head of it that all heads are."""
    shared = piece[:, :1]
    if torch.equal(shared.expand(piece.shape), piece):
        return _lying(flow, shared, factor) or _lying(flow, piece, factor)
    return _lying(flow, piece, factor)
