"""The axes of a tensor as factors of the axes of the tensors it was made from.

A tensor's memory layout says nothing about meaning, and its shape says little: after a few views
and permutations an axis of 96 may be batch times heads, or heads times their width, or tokens.
Here an axis is written as the product of *atoms*, each a factor of one axis of an *origin* tensor,
outermost first. Views split and join atoms, permutations move them, slices shift and stride them,
copies add repeated ones. Everything is sizes and tuples: no tensor is touched.

Position ``i`` of an atom adds ``offset + (i - before) * stride`` to the position along the origin
axis; the sum over the atoms of one origin axis is the position itself. Where an operation took
positions away for good (a sum over one factor, a pick by a tensor), the sum is known up to that
part, and each atom's own ``stride`` and ``size`` stay true.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NO_ORIGIN = -1
"""``origin`` and ``axis`` of a repeated atom, which was cut from nothing."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A factor of one axis of an origin tensor.

    ``opaque`` marks positions that can't be told in terms of an older origin: what a tensor index,
    a sort, a roll or a view across the grain left behind. Such an atom has an origin of its own,
    so it can still be split, joined and compared with itself.
    """

    origin: int
    """Number of the origin tensor; ``NO_ORIGIN`` when repeated."""
    axis: int
    """Axis of the origin it was cut from."""
    stride: int
    """Step along the origin axis, in elements, of one step along this atom; negative if flipped."""
    size: int
    """Positions along this atom, those of ``before`` and ``after`` included."""
    offset: int = 0
    """Position along the origin axis of the first position that comes from it."""
    repeated: bool = False
    """Made by expanding or repeating: all its positions hold the same values."""
    before: int = 0
    """Positions at the start that don't come from the origin (padding, concatenation)."""
    after: int = 0
    """Positions at the end that don't come from the origin."""
    opaque: bool = False

    @property
    def padded(self) -> bool:
        """Whether some positions don't come from the origin."""
        return bool(self.before or self.after)


Axis = tuple[Atom, ...]
"""Atoms of one axis, outermost first; ``()`` is an axis of size 1."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What each axis of a tensor is made of."""

    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each axis."""
        return tuple(size(axis) for axis in self.axes)

    @property
    def atoms(self) -> Axis:
        """All atoms, in the order in which the tensor's elements are read."""
        return tuple(atom for axis in self.axes for atom in axis)

    def permute(self, order: Sequence[int]) -> Layout:
        """The layout whose axis ``i`` is this one's axis ``order[i]``."""
        return Layout(tuple(self.axes[axis] for axis in order))

    def replace(self, axis: int, *new: Axis) -> Layout:
        """The layout with ``axis`` replaced by none, one or several others."""
        return Layout((*self.axes[:axis], *new, *self.axes[axis + 1 :]))


def size(axis: Iterable[Atom]) -> int:
    """Number of positions along an axis."""
    return prod(atom.size for atom in axis)


def fresh_axis(length: int, origin: int, axis: int = 0, *, opaque: bool = False) -> Axis:
    """A whole axis of an origin tensor."""
    return (Atom(origin, axis, 1, length, opaque=opaque),) if length != 1 else ()


def repeated_axis(length: int) -> Axis:
    """An axis of copies."""
    return (Atom(NO_ORIGIN, NO_ORIGIN, 0, length, repeated=True),) if length != 1 else ()


def fresh(shape: Sequence[int], origin: int) -> Layout:
    """The layout of an origin tensor itself: every axis is one whole atom."""
    return Layout(tuple(fresh_axis(length, origin, i) for i, length in enumerate(shape)))


def same(atom_a: Atom, atom_b: Atom) -> bool:
    """Whether two atoms run over the same positions of the same origin axis, in the same order.

    Repeated atoms of one size are the same: both are copies of something.
    """
    return atom_a == atom_b


def split_atom(atom: Atom, inner: int) -> Axis | None:
    """The atom as (outer, inner) with ``inner`` positions in the inner one; None: impossible."""
    if inner == atom.size and not atom.padded:
        return (atom,)
    if any(count % inner for count in (atom.size, atom.before, atom.after)):
        return None
    outer = replace(
        atom,
        stride=atom.stride * inner,
        size=atom.size // inner,
        before=atom.before // inner,
        after=atom.after // inner,
    )
    return (outer, replace(atom, size=inner, offset=0, before=0, after=0))


def merge(axis: Iterable[Atom]) -> Axis:
    """The same positions with neighbours that continue each other glued together."""
    glued: list[Atom] = []
    for atom in axis:
        if glued and (joined := _glue(glued[-1], atom)) is not None:
            glued[-1] = joined
        else:
            glued.append(atom)
    return tuple(glued)


def _glue(outer: Atom, inner: Atom) -> Atom | None:
    origins = (outer.origin, outer.axis) == (inner.origin, inner.axis)
    if not origins or outer.stride != inner.stride * inner.size or inner.padded:
        return None
    return replace(
        outer,
        stride=inner.stride,
        size=outer.size * inner.size,
        offset=outer.offset + inner.offset,
        before=outer.before * inner.size,
        after=outer.after * inner.size,
    )


def split_common(axis_a: Axis, axis_b: Axis) -> tuple[Axis, Axis] | None:
    """Both axes refined to atoms of pairwise equal size, or None where sizes don't allow it.

    ``(12,)`` and ``(3, 4)`` give ``(3, 4)`` twice; ``(6, 4)`` and ``(4, 6)`` give None.
    """
    if size(axis_a) != size(axis_b):
        return None
    rest_a, rest_b = (
        [atom for atom in reversed(axis) if atom.size != 1] for axis in (axis_a, axis_b)
    )
    done_a: list[Atom] = []
    done_b: list[Atom] = []
    while rest_a:
        outer = min(rest_a[-1].size, rest_b[-1].size)
        for rest, done in ((rest_a, done_a), (rest_b, done_b)):
            parts = _take(rest, outer)
            if parts is None:
                return None
            done.append(parts)
    return tuple(done_a), tuple(done_b)


def _take(rest: list[Atom], outer: int) -> Atom | None:
    """Take ``outer`` positions off the last atom of a reversed list, leaving what is inside."""
    atom = rest.pop()
    if atom.size == outer:
        return atom
    if atom.size % outer:
        return None
    parts = split_atom(atom, atom.size // outer)
    if parts is None:
        return None
    rest.append(parts[-1])
    return parts[0]


def cut(axis: Axis, start: int, step: int, count: int) -> Axis | None:
    """Positions ``start, start + step, ...`` of an axis, or None where atoms can't say it.

    A cut down to one position leaves atoms of size 1 that carry the offset; ``settle`` moves it.
    """
    if not axis or (count == size(axis) and step == 1):
        return axis
    head, tail = axis[0], axis[1:]
    inner = size(tail)
    first, within = divmod(start, inner)
    if count == 1:
        parts = _cut_atom(head, first, 1, 1), cut(tail, within, 1, 1)
    elif step % inner == 0:
        parts = _cut_atom(head, first, step // inner, count), cut(tail, within, 1, 1)
    elif first == (start + (count - 1) * step) // inner:
        parts = _cut_atom(head, first, 1, 1), cut(tail, within, step, count)
    elif inner % step == 0 and within < step and count % (inner // step) == 0:
        each = inner // step
        parts = _cut_atom(head, first, 1, count // each), cut(tail, within, step, each)
    else:
        return None
    return None if parts[0] is None or parts[1] is None else (parts[0], *parts[1])


def _cut_atom(atom: Atom, start: int, step: int, count: int) -> Atom | None:
    if atom.repeated:
        return replace(atom, size=count)
    end, core_end = start + (count - 1) * step + 1, atom.size - atom.after
    before, after = max(0, atom.before - start), max(0, end - core_end)
    if before + after and (step != 1 or before + after >= count):
        return None
    skipped = max(0, start - atom.before)
    return replace(
        atom,
        stride=atom.stride * step,
        size=count,
        offset=atom.offset + skipped * atom.stride,
        before=before,
        after=after,
    )


def grow(axis: Axis, before: int, after: int) -> Axis | None:
    """The axis with foreign positions added at its ends, or None where atoms can't say it."""
    inner = size(axis[1:])
    if not axis or axis[0].repeated or before % inner or after % inner:
        return None
    before, after = before // inner, after // inner
    head = replace(
        axis[0],
        size=axis[0].size + before + after,
        before=axis[0].before + before,
        after=axis[0].after + after,
    )
    return (head, *axis[1:])


def flip(axis: Axis) -> Axis:
    """The axis read backwards."""
    return tuple(
        replace(
            atom,
            stride=-atom.stride,
            offset=atom.offset + (atom.size - atom.before - atom.after - 1) * atom.stride,
            before=atom.after,
            after=atom.before,
        )
        for atom in axis
    )


def settle(axes: Iterable[Axis], dropped: Axis = ()) -> Layout:
    """A layout in normal form: no atoms of size 1, neighbours glued.

    The offset of a removed atom (``dropped`` or of size 1) moves to the atom of the same origin
    axis with the next smaller stride, else the next larger: ``qkv.view(b, t, 3, h, d)[:, :, 1]``
    and ``qkv.chunk(3, -1)[1].view(b, t, h, d)`` give the same atoms.
    """
    kept = [list(axis) for axis in axes]
    removed = [atom for axis in kept for atom in axis if atom.size == 1]
    kept = [[atom for atom in axis if atom.size != 1] for axis in kept]
    for gone in (*dropped, *removed):
        places = [
            (abs(atom.stride) > abs(gone.stride), abs(abs(atom.stride) - abs(gone.stride)), i, j)
            for i, axis in enumerate(kept)
            for j, atom in enumerate(axis)
            if (atom.origin, atom.axis) == (gone.origin, gone.axis) and not atom.repeated
        ]
        if places and gone.offset:
            _, _, i, j = min(places)
            kept[i][j] = replace(kept[i][j], offset=kept[i][j].offset + gone.offset)
    return Layout(tuple(merge(axis) for axis in kept))


def regroup(layout: Layout, shape: Sequence[int], new_origin: Callable[[], int]) -> Layout | None:
    """The layout after a view to ``shape``; None if the number of elements differs.

    Where axes are cut across the grain (4 by 6 read as 6 by 4), the axes between the nearest
    common borders become opaque, as row-major factors of one new origin; all others stay known.
    """
    atoms = merge(layout.atoms)
    if size(atoms) != prod(shape):
        return None
    axes: list[Axis] = []
    taken = 0
    while len(axes) < len(shape):
        block, sizes = _next_block(atoms[taken:], shape[len(axes) :])
        taken += len(block)
        exact = _regroup_block(block, sizes)
        if exact is None:
            origin = new_origin()
            exact = [
                (Atom(origin, 0, prod(sizes[i + 1 :]), length, opaque=True),)
                for i, length in enumerate(sizes)
            ]
        axes.extend(exact)
    return settle(axes)


def _next_block(atoms: Axis, shape: Sequence[int]) -> tuple[Axis, Sequence[int]]:
    """The fewest leading atoms and leading sizes, one at least, that cover each other."""
    some, sizes = 0, 1
    while (inside := size(atoms[:some])) != (asked := prod(shape[:sizes])):
        if inside < asked:
            some += 1
        else:
            sizes += 1
    return atoms[:some], shape[:sizes]


def _regroup_block(atoms: Axis, sizes: Sequence[int]) -> list[Axis] | None:
    rest = list(reversed(atoms))
    axes: list[Axis] = []
    for asked in sizes:
        axis: list[Atom] = []
        while (missing := asked // size(axis)) > 1:
            if missing * size(axis) != asked:
                return None
            part = _take(rest, min(missing, rest[-1].size))
            if part is None:
                return None
            axis.append(part)
        if size(axis) != asked:
            return None
        axes.append(tuple(axis))
    return axes


def combine(axis_a: Axis, axis_b: Axis) -> Axis | None:
    """One axis for two tensors that meet position by position; None where atoms can't say it.

    A factor that is a copy in one is taken from the other; where both really have it, the one
    without foreign or opaque positions wins, else the first.
    """
    if not any(atom.repeated for atom in axis_a + axis_b):
        flawed = any(atom.padded or atom.opaque for atom in axis_a)
        return axis_b if flawed and not any(a.padded or a.opaque for a in axis_b) else axis_a
    parts = split_common(axis_a, axis_b)
    if parts is not None:
        pairs = zip(*parts, strict=True)
        return merge(b if a.repeated else a for a, b in pairs)
    whole = [axis for axis in (axis_a, axis_b) if not any(atom.repeated for atom in axis)]
    return whole[0] if whole else None
