"""Operations that change the shape and no value: views, permutations, copies, windows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from attnscope.capture.layout.algebra import Axis, Layout, merge, regroup, repeated_axis, settle
from attnscope.capture.layout.operation import UnfollowedError, counted, is_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attnscope.capture.layout.operation import Operation


def view(op: Operation) -> Layout:
    """Everything that reads the same elements in the same order: the output's shape says all."""
    layout = regroup(op.layout(), op.out_shape, op.new_origin)
    if layout is None:
        raise UnfollowedError
    return layout


def permute(op: Operation) -> Layout:
    """``permute(*dims)`` and ``permute(dims)``."""
    layout = op.layout()
    ndim = len(layout.axes)
    return _permuted(layout, [counted(axis, ndim) for axis in op.integers(1, "dims")])


def transpose(op: Operation) -> Layout:
    """``transpose``, ``swapaxes``, ``swapdims``."""
    layout = op.layout()
    ndim = len(layout.axes)
    first = op.axis(1, "dim0", "axis0", ndim=ndim)
    second = op.axis(2, "dim1", "axis1", ndim=ndim)
    order = list(range(ndim))
    order[first], order[second] = second, first
    return _permuted(layout, order)


def reverse_axes(op: Operation) -> Layout:
    """``T``, ``H`` and ``t``: all axes in reverse order."""
    layout = op.layout()
    return _permuted(layout, list(reversed(range(len(layout.axes)))))


def swap_last(op: Operation) -> Layout:
    """``mT``, ``mH``, ``adjoint``: the last two axes swapped."""
    layout = op.layout()
    ndim = len(layout.axes)
    return _permuted(layout, [*range(ndim - 2), ndim - 1, ndim - 2])


def move_axes(op: Operation) -> Layout:
    """``movedim``, ``moveaxis``, with one axis or several."""
    layout = op.layout()
    ndim = len(layout.axes)
    source = [counted(axis, ndim) for axis in op.some_integers(1, "source")]
    target = [counted(axis, ndim) for axis in op.some_integers(2, "destination")]
    if len(source) != len(target):
        raise UnfollowedError
    moved = dict(zip(target, source, strict=True))
    others = iter(axis for axis in range(ndim) if axis not in source)
    order = [moved[axis] if axis in moved else next(others, ndim) for axis in range(ndim)]
    return _permuted(layout, order)


def _permuted(layout: Layout, order: Sequence[int]) -> Layout:
    if sorted(order) != list(range(len(layout.axes))):
        raise UnfollowedError
    return layout.permute(order)


def expand(op: Operation) -> Layout:
    """``expand``, ``expand_as``, ``broadcast_to``: axes of size 1 and new ones become copies."""
    layout = op.layout()
    missing = len(op.out_shape) - len(layout.axes)
    if missing < 0:
        raise UnfollowedError
    axes: list[Axis] = [()] * missing + list(layout.axes)
    pairs = zip(axes, op.out_shape, strict=True)
    return Layout(tuple(axis or repeated_axis(length) for axis, length in pairs))


def repeat(op: Operation) -> Layout:
    """``repeat`` and ``tile``: each axis as a whole, so many times."""
    layout = op.layout()
    times = op.integers(1, "repeats", "sizes", "dims")
    ndim = max(len(times), len(layout.axes))
    axes = [()] * (ndim - len(layout.axes)) + list(layout.axes)
    counts = (1,) * (ndim - len(times)) + times
    pairs = zip(counts, axes, strict=True)
    return settle(repeated_axis(count) + axis for count, axis in pairs)


def repeat_interleave(op: Operation) -> Layout:
    """Each position so many times in a row; by a tensor of counts the axis becomes opaque."""
    layout = op.layout()
    if op.argument(2, "dim") is None:
        layout, at = Layout((merge(layout.atoms),)), 0
    else:
        at = op.axis(2, "dim", ndim=len(layout.axes))
    axis = layout.axes[at]
    if is_integer(op.argument(1, "repeats")):
        changed = axis + repeated_axis(op.integer(1, "repeats"))
    else:
        changed = op.scrambled(axis, op.out_shape[at])
    return settle(layout.replace(at, changed).axes)


def as_complex(op: Operation) -> Layout:
    """Real and imaginary part, the last axis, become one number."""
    return Layout(op.layout().axes[:-1])


def as_real(op: Operation) -> Layout:
    """Each complex number becomes two real ones along a new last axis."""
    axes = op.layout().axes
    return Layout((*axes, op.new(2, len(axes))))


def windows(op: Operation) -> Layout:
    """``Tensor.unfold``: windows along one axis, a new last axis runs inside each.

    Overlapping windows are told exactly: the position is the window's start plus the place inside.
    """
    layout = op.layout()
    ndim = len(layout.axes)
    if len(op.out_shape) != ndim + 1:
        raise UnfollowedError
    at = op.axis(1, "dimension", ndim=ndim)
    width, step = op.integer(2, "size"), op.integer(3, "step")
    axis = layout.axes[at]
    count = op.out_shape[at]
    outer: Axis = ()
    inner: Axis = ()
    if len(axis) == 1 and not axis[0].padded:
        atom = axis[0]
        outer = (replace(atom, size=count, stride=atom.stride * step),)
        inner = (replace(atom, size=width, offset=0),)
    elif axis:
        outer, inner = op.opaque(count), op.opaque(width)
    return settle((*layout.replace(at, outer).axes, inner))
