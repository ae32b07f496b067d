"""Absolute positions: shifted, reversed, missing, and tables of another formula or layout."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnscope.calls.program import Operation
from attnscope.explain.change import Change
from attnscope.explain.kinds.around.rewriting import passing
from attnscope.explain.kinds.around.sides import BETWEEN, Edit, OwnPart
from attnscope.explain.kinds.around.sinusoids import Sinusoid, read_sinusoid
from attnscope.explain.scene import Scene

__all__ = ["position_table", "positions_missing", "positions_shifted"]

_SHIFTS = (1, -1, 2, -2, 3, -3, 4, -4)
_ADDS = frozenset("add iadd radd".split())


def positions_shifted(side: OwnPart) -> Iterator[Edit]:
    """Propose positions that begin elsewhere, run backwards, or are all the same."""
    for value, positions in _counting(side):
        begin, length = int(positions.flatten()[0]), positions.shape[-1]
        ways = {
            f"positions shifted by {n:+d}: they begin at {begin + n} where the reference has "
            f"{begin}": positions + n
            for n in _SHIFTS
        }
        ways[f"positions reversed: from {begin + length - 1} down to {begin}"] = positions.flip(-1)
        ways[f"every position is {begin}"] = torch.full_like(positions, begin)
        for text, other in ways.items():
            yield side.given("positions-shifted", text, value, other)
    yield from _slices(side)


def _counting(side: OwnPart) -> Iterator[tuple[int, Tensor]]:
    """Iterate over values that count 0, 1, 2, … (from any number) along their last axis."""
    for value in (*side.flow.leaves, *side.flow.maker):
        tensor = side.flow.values.get(value)
        if tensor is None or value in side.part.parameters or tensor.ndim == 0:
            continue
        if value in side.flow.activations or tensor.dtype == torch.bool or tensor.is_complex():
            continue
        if tensor.shape[-1] > 1 and _counts(tensor):
            yield value, tensor


def _counts(tensor: Tensor) -> bool:
    steps = tensor.diff(dim=-1)
    return bool((steps == 1).all()) and bool((tensor[..., 0] == tensor.flatten()[0]).all())


def _slices(side: OwnPart) -> Iterator[Edit]:
    """Propose a table of positions that is cut from another row on."""
    for op in side.flow.operations:
        tables = [value for value in op.values() if value in side.part.parameters]
        if op.name != "getitem" or len(tables) != 1:
            continue
        table = side.flow.values[tables[0]]
        made = side.flow.values[op.defines[0]]
        if table.ndim < 2 or table.shape[-1] != made.shape[-1]:
            continue
        axis, length = table.ndim - 2, made.shape[-2]
        rows = table.reshape(-1, *table.shape[-2:])[0]
        first = (rows == made.reshape(-1, *made.shape[-2:])[0][0]).all(-1).nonzero().flatten()
        begin = int(first[0]) if len(first) else 0
        for n in _SHIFTS:
            if not 0 <= begin + n <= table.shape[axis] - length:
                continue
            cut = table.narrow(axis, begin + n, length)
            if cut.numel() == made.numel():
                text = (
                    f"positions shifted by {n:+d}: the table is read from row {begin + n} where "
                    f"the reference reads it from row {begin}"
                )
                yield side.given("positions-shifted", text, op.defines[0], cut.reshape(made.shape))


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """Positions that are added: the operation, what they are added to, and the table.

    table: (length, width).
    """

    op: Operation
    tokens: int
    added: int
    table: Tensor


def _sums(side: OwnPart) -> Iterator[_Sum]:
    """Iterate over additions of something that is the same in every sample."""
    values = side.flow.values
    for op in side.flow.operations:
        operands = [value for value in dict.fromkeys(op.values()) if values[value].ndim >= 2]
        if op.name.strip("_") not in _ADDS or len(operands) != 2:
            continue
        made = values[op.defines[0]]
        for added, tokens in (operands, operands[::-1]):
            table, own = values[added], values[tokens]
            if own.shape != made.shape or not table.is_floating_point() or made.ndim != 3:
                continue
            row = _row(table, made)
            if row is not None:
                yield _Sum(op, tokens, added, row)


def _row(table: Tensor, made: Tensor) -> Tensor | None:
    """Return a table as (length, width); None: it is not the same in every sample."""
    if table.shape[-2:] != made.shape[-2:]:
        return None
    flat = table.reshape(-1, *table.shape[-2:])
    if made.shape[-2] < 2 or not bool((flat == flat[:1]).all()):
        return None
    return flat[0]


def positions_missing(side: OwnPart) -> Iterator[Edit]:
    """Propose that nothing is added for the position."""
    for each in _sums(side):
        length, width = each.table.shape
        what = f"the table of positions ({length} positions, width {width})"
        text = f"{what} is added where the reference adds none" if side.mends else f"{what} missing"
        yield side.edited("positions-missing", text, passing(each.op, each.tokens))


def position_table(scene: Scene) -> Iterator[Change]:
    """Propose another table of positions: its base, layout or axis, read from the candidate's."""
    part, ours = scene.reference.parts.get(scene.stage), scene.candidate.parts.get(scene.stage)
    if scene.stage not in BETWEEN or part is None:
        return
    side = OwnPart(scene, part, mends=False)
    tables = [] if ours is None else list(_sums(OwnPart(scene, ours, mends=True)))
    for each in _sums(side):
        for text, table in _tables(each.table, [other.table for other in tables]):
            shape = side.flow.values[each.added].shape
            other = table.expand(shape[-2:]).expand(shape)
            yield side.change(side.given("position-table", text, each.added, other))
        yield from map(side.change, _along_batch(side, each))


def _tables(table: Tensor, others: list[Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Iterate over tables in words."""
    own = read_sinusoid(table)
    for other in others:
        read = read_sinusoid(other) if other.shape == table.shape else None
        if own is not None and read is not None and not read.is_like(own):
            yield f"positions with {_difference(read, own)}", read.table(*table.shape)
    if own is not None:
        for each in _neighbours(own):
            if each.is_like(own):
                continue
            yield f"positions with {_difference(each, own)}", each.table(*table.shape)
    width = table.shape[1]
    for size in (width, math.sqrt(width)):
        yield f"positions times {size:.6g}", table * size
        yield f"positions times 1/{size:.6g}", table / size


def _neighbours(own: Sinusoid) -> Iterator[Sinusoid]:
    """Iterate over the other layouts of a table, and usual bases."""
    for layout in ("interleaved", "concatenated"):
        for swapped in (False, True):
            yield replace(own, layout=layout, swapped=swapped)
    for base in (1e2, 1e3, 1e4, 1e5, 5e5, 1e6):
        yield replace(own, base=base)


def _difference(ours: Sinusoid, theirs: Sinusoid) -> str:
    found = []
    if ours.layout != theirs.layout:
        found.append(f"sine and cosine {ours.layout} where the reference has them {theirs.layout}")
    if ours.swapped != theirs.swapped:
        found.append("sine and cosine swapped")
    if not math.isclose(ours.base, theirs.base, rel_tol=1e-3):
        found.append(f"base {ours.base:g} where the reference has {theirs.base:g}")
    if ours.begin != theirs.begin:
        found.append(f"the first at {ours.begin:g} where the reference has {theirs.begin:g}")
    if ours.spread != theirs.spread:
        found.append(f"exponents of i/{ours.spread:g} where the reference has i/{theirs.spread:g}")
    return ", ".join(found) or "the same table"


def _along_batch(side: OwnPart, each: _Sum) -> Iterator[Edit]:
    """Propose that samples take the place of positions."""
    made = side.flow.values[each.op.defines[0]]
    batch = made.shape[0]
    if batch > each.table.shape[0]:
        return
    own = side.flow.values[each.tokens] + each.table[:batch, None]
    yield side.given(
        "position-table",
        f"positions are added along the batch (axis of {batch}) where the reference adds them "
        f"along the tokens (axis of {made.shape[1]})",
        each.op.defines[0],
        own,
    )
