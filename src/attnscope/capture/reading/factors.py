"""Factors of the product q·k: what each part of each of its axes is, and tensors made of them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from math import prod

from attnscope.calls.arrangement import Arrangement
from attnscope.capture.layout import Atom, Axis, Layout

SCORES = 0
"""Origin number of the product q·k, in layouts of what follows from it."""

ROLES = ("batch", "heads", "queries", "keys")


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of one axis of the product q·k.

    copied: k (or q) holds the same values at all its positions: expanded kv heads.
    """

    role: str
    axis: int
    stride: int
    size: int
    copied: bool = False


def with_kv_heads(group: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """Name the heads that lie beside copies in one axis, outermost first.

    Copies are made of heads: the factor inside of them (`repeat`), else the one outside (`expand`,
    `repeat_interleave`), belongs to the kv heads, not to the batch.
    """
    copies = [at for at, factor in enumerate(group) if factor.copied]
    if len(copies) != 1:
        return group
    beside = copies[0] + 1 if copies[0] + 1 < len(group) else copies[0] - 1
    if beside < 0 or group[beside].role != "batch":
        return group
    named = replace(group[beside], role="heads")
    return (*group[:beside], named, *group[beside + 1 :])


def is_copy(axis: Axis | None, factor: Factor) -> bool:
    """Return whether an operand's `axis` holds copies along `factor`: expanded kv heads."""
    atom = covering(axis, factor.stride) if axis is not None else None
    return atom is not None and atom.repeated and factor.role == "heads"


def strides_of(axis: Axis) -> list[int]:
    """Return for each atom of `axis`, from the innermost, how many positions lie inside it."""
    strides, inner = [], 1
    for atom in reversed(axis):
        strides.append(inner)
        inner *= atom.size
    return strides


def common_strides(several: list[list[int]], size: int) -> list[int]:
    """Return inner sizes at which an axis splits: all that are known, where they fit together."""
    merged = sorted({1, *(stride for strides in several for stride in strides)})
    fits = all(b % a == 0 for a, b in itertools.pairwise([*merged, size]))
    if fits:
        return merged
    return several[0] if several else [1]


def covering(axis: Axis | None, stride: int) -> Atom | None:
    """Return the atom of `axis` that holds the factor with this inner size."""
    inner = 1
    for atom in reversed(axis or ()):
        if inner <= stride < inner * atom.size:
            return atom
        inner *= atom.size
    return None


def pieces_of(axis: Axis, factors: tuple[tuple[Factor, ...], ...]) -> list[Factor] | None:
    """Write an axis of a later tensor in the factors of q·k; None where it is not made of them."""
    pieces: list[Factor] = []
    for atom in axis:
        if atom.origin != SCORES:
            return None
        found = _atom_pieces(atom, factors[atom.axis])
        if found is None:
            return None
        pieces.extend(found)
    return pieces


def _atom_pieces(atom: Atom, factors: tuple[Factor, ...]) -> list[Factor] | None:
    pieces = []
    low, high = abs(atom.stride), abs(atom.stride) * atom.size
    if len(factors) == 1:
        only = factors[0]
        return [Factor(only.role, only.axis, low, atom.size, only.copied)]
    for factor in factors:
        bottom, top = max(low, factor.stride), min(high, factor.stride * factor.size)
        if top <= bottom:
            continue
        if top % bottom or bottom % factor.stride:
            return None
        pieces.append(Factor(factor.role, factor.axis, bottom, top // bottom, factor.copied))
    return pieces if prod(p.size for p in pieces) == atom.size else None


def by_factors(layout: Layout, factors: tuple[tuple[Factor, ...], ...]) -> Arrangement | None:
    """Return how a tensor made of q·k becomes (batch, heads, queries, keys); None: it does not."""
    pieces = []
    for axis in layout.axes:
        found = pieces_of(axis, factors)
        if found is None:
            return None
        pieces.append([(f.role, (f.axis, -f.stride), f.size, False) for f in found])
    return arranged(pieces, ROLES)


def arranged(
    pieces: list[list[tuple[str, tuple[int, int], int, bool]]], roles: tuple[str, ...]
) -> Arrangement | None:
    """Order the factors of a tensor by role, and within a role as they stand in q·k."""
    flat = [piece for axis in pieces for piece in axis]
    if any(role not in roles for role, *_ in flat):
        return None
    groups = []
    for role in roles:
        mine = [
            (order, at) for at, (own, order, _, copy) in enumerate(flat) if own == role and not copy
        ]
        groups.append(tuple(at for _, at in sorted(mine)))
    copies = tuple(at for at, piece in enumerate(flat) if piece[3])
    return Arrangement(
        tuple(tuple(size for _, _, size, _ in axis) for axis in pieces), tuple(groups), copies
    )


def name_queries(factors: dict[int, tuple[Factor, ...]], free: list[int], alone: list[int]) -> None:
    """Make the last axis that only q has the queries, where none was found to be."""
    if any(factor.role == "queries" for group in factors.values() for factor in group):
        return
    choice = [out for out in free if factors[out]] or [
        out for out in alone if any(factor.role == "batch" for factor in factors[out])
    ]
    if choice:
        out = choice[-1]
        factors[out] = tuple(
            Factor("queries", f.axis, f.stride, f.size) if out in free or f.role == "batch" else f
            for f in factors[out]
        )


def is_tiled(k: Arrangement) -> bool:
    """Return whether the copies of all kv heads lie one after another, as `repeat` lays them."""
    heads = k.groups[1]
    return bool(k.copies) and bool(heads) and k.copies[0] < heads[0]
