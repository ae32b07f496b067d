"""Operations that take pieces of tensors and put pieces together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from attnscope.capture.layout.algebra import (
    Axis,
    Layout,
    combine,
    cut,
    flip,
    grow,
    merge,
    settle,
    size,
)
from attnscope.capture.layout.operation import (
    UnfollowedError,
    Unknown,
    as_integers,
    broadcast,
    counted,
    is_integer,
    is_tensor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attnscope.capture.layout.operation import Operation


def piece(op: Operation, axis: Axis, start: int, step: int, count: int) -> Axis:
    """A slice of an axis; opaque where atoms can't say it."""
    taken = cut(axis, start, step, count)
    return op.opaque(count) if taken is None else taken


def _slice(op: Operation, layout: Layout, at: int, start: int, count: int) -> Layout:
    return settle(layout.replace(at, piece(op, layout.axes[at], start, 1, count)).axes)


def _pick(layout: Layout, at: int, index: int) -> Layout:
    dropped = cut(layout.axes[at], index, 1, 1) or ()
    return settle(layout.replace(at).axes, dropped)


def narrow(op: Operation) -> Layout:
    """``narrow(dim, start, length)``."""
    layout = op.layout()
    at = op.axis(1, "dim", ndim=len(layout.axes))
    length = layout.shape[at]
    start = op.integer(2, "start")
    return _slice(op, layout, at, start % length, op.integer(3, "length"))


def select(op: Operation) -> Layout:
    """``select(dim, index)``."""
    layout = op.layout()
    at = op.axis(1, "dim", ndim=len(layout.axes))
    return _pick(layout, at, counted(op.integer(2, "index"), layout.shape[at]))


def unbind(op: Operation) -> Layout:
    """One of the outputs of ``unbind(dim)``."""
    layout = op.layout()
    at = op.axis(1, "dim", ndim=len(layout.axes), default=0)
    return _pick(layout, at, counted(op.output_index, layout.shape[at]))


def part(op: Operation) -> Layout:
    """One of the outputs of ``chunk``, ``split``, ``split_with_sizes``, ``tensor_split``."""
    layout = op.layout()
    at = op.axis(2, "dim", ndim=len(layout.axes), default=0)
    borders = _borders(op, layout.shape[at])
    index = counted(op.output_index, len(borders) - 1)
    start, end = borders[index : index + 2]
    return _slice(op, layout, at, start, end - start)


def _borders(op: Operation, length: int) -> list[int]:
    names = "chunks", "split_size_or_sections", "split_size", "split_sizes"
    given = op.argument(1, *names, "indices_or_sections", "sections", "indices", "tensor_indices")
    if isinstance(given, list | tuple):
        values = as_integers(given)
        if op.name == "tensor_split":
            places = [min(max(v + length if v < 0 else v, 0), length) for v in values]
            return [0, *places, length]
        return [sum(values[:i]) for i in range(len(values) + 1)]
    if not is_integer(given) or given < 1:
        raise UnfollowedError
    if op.name == "tensor_split":
        short, longer = divmod(length, given)
        return [i * short + min(i, longer) for i in range(given + 1)]
    each = -(-length // given) if "chunk" in op.name else given
    return [*range(0, length, each), length]


def cat(op: Operation) -> Layout:
    """Tensors one after the other along an axis.

    Pieces that continue each other are one again; pieces of another axis (heads cut off the
    features and put behind each other) are a factor of that axis. Otherwise the first operand that
    is known along the axis is the main one, and what stands before and after it are foreign
    positions.
    """
    parts = [part for part in _tensors(op) if part.shape != (0,)]
    ndim = len(op.out_shape)
    at = op.axis(1, "dim", "axis", ndim=ndim, default=0)
    if any(len(part.shape) != ndim for part in parts):
        raise UnfollowedError
    whole = _continued([part.axes[at] if isinstance(part, Layout) else () for part in parts])
    factor = _interleaved(parts) if whole is None else None
    first = parts[0]
    if factor is not None and isinstance(first, Layout):
        return settle(first.replace(at, (*factor, *first.axes[at])).axes)
    main = next((i for i, own in enumerate(parts) if _real(own, at)), None)
    if whole is None and main is not None:
        before = sum(own.shape[at] for own in parts[:main])
        after = sum(own.shape[at] for own in parts[main + 1 :])
        whole = grow(_real(parts[main], at), before, after)
    order = sorted(range(len(parts)), key=lambda i: i != main)
    others = _common(op, [_without(parts[i], at) for i in order], at)
    return settle((*others[:at], whole or op.opaque(op.out_shape[at]), *others[at:]))


def _real(part: Layout | Unknown, at: int) -> Axis:
    """An axis of a tensor, or nothing where it isn't known or holds copies alone."""
    axis = part.axes[at] if isinstance(part, Layout) else ()
    return () if all(atom.repeated for atom in axis) else axis


def _tensors(op: Operation) -> list[Layout | Unknown]:
    given = op.argument(0, "tensors")
    if not isinstance(given, list | tuple) or not all(is_tensor(part) for part in given):
        raise UnfollowedError
    return list(given)


def _without(part: Layout | Unknown, at: int) -> Layout | Unknown:
    if isinstance(part, Layout):
        return part.replace(at)
    return Unknown((*part.shape[:at], *part.shape[at + 1 :]))


def _common(op: Operation, parts: Sequence[Layout | Unknown], at: int) -> tuple[Axis, ...]:
    shape = (*op.out_shape[:at], *op.out_shape[at + 1 :])
    if any(part.shape != shape for part in parts):
        raise UnfollowedError
    return broadcast(op, parts, shape).axes


def _continued(axes: Sequence[Axis]) -> Axis | None:
    """One axis, where each of several goes on at the position where the one before it ends."""
    if not axes or not all(axes):
        return None
    head, tail = axes[0][0], axes[0][1:]
    for axis in axes[1:]:
        expected = replace(head, size=axis[0].size, offset=head.offset + head.size * head.stride)
        if head.padded or head.repeated or axis != (expected, *tail):
            return None
        head = replace(head, size=head.size + axis[0].size)
    return (head, *tail)


def stack(op: Operation) -> Layout:
    """Tensors along a new axis.

    Where they are every so many-th position of one axis (the even and the odd features), the new
    axis is that factor; otherwise it begins here, and an axis on which they differ is opaque.
    """
    parts = _tensors(op)
    at = op.axis(1, "dim", ndim=len(op.out_shape), default=0)
    factor = _interleaved(parts)
    if factor is not None:
        first = parts[0]
        if isinstance(first, Layout):
            return settle((*first.axes[:at], factor, *first.axes[at:]))
    axes = list(_common(op, parts, at))
    known = [part for part in parts if isinstance(part, Layout)]
    for i, axis in enumerate(axes):
        if any(combine(part.axes[i], axis) != axis for part in known):
            axes[i] = op.opaque(size(axis))
    return settle((*axes[:at], op.new(len(parts), at), *axes[at:]))


def _interleaved(parts: Sequence[Layout | Unknown]) -> Axis | None:
    """The factor of an axis along which tensors differ by a constant step, if that is all."""
    layouts = [part for part in parts if isinstance(part, Layout)]
    if len(layouts) != len(parts) or len(parts) <= 1:
        return None
    rows = [layout.atoms for layout in layouts]
    if any(len(row) != len(rows[0]) for row in rows):
        return None
    moving = [i for i, column in enumerate(zip(*rows, strict=True)) if len(set(column)) > 1]
    if len(moving) != 1:
        return None
    atoms = [row[moving[0]] for row in rows]
    step = atoms[1].offset - atoms[0].offset
    expected = [replace(atoms[0], offset=atoms[0].offset + i * step) for i in range(len(atoms))]
    if atoms != expected or atoms[0].padded:
        return None
    return (replace(atoms[0], stride=step, size=len(atoms), offset=0),)


def pad(op: Operation) -> Layout:
    """``F.pad`` with a constant; with any other mode the padded axes are opaque."""
    layout = op.layout()
    widths = op.some_integers(1, "pad")
    constant = op.argument(2, "mode", default="constant") == "constant"
    if op.name == "constant_pad_nd":
        constant = True
    axes = list(layout.axes)
    for i in range(len(widths) // 2):
        before, after = widths[2 * i : 2 * i + 2]
        at = counted(-1 - i, len(axes))
        if before or after:
            padded = _padded(op, axes[at], before, after) if constant else None
            axes[at] = padded or op.opaque(op.out_shape[at])
    return settle(axes)


def _padded(op: Operation, axis: Axis, before: int, after: int) -> Axis | None:
    cut_before, cut_after = max(0, -before), max(0, -after)
    kept = size(axis) - cut_before - cut_after
    if kept < 1:
        return None
    return grow(piece(op, axis, cut_before, 1, kept), max(0, before), max(0, after))


def flip_axes(op: Operation) -> Layout:
    """``flip``, ``fliplr``, ``flipud``: strides turn negative."""
    layout = op.layout()
    fixed = {"fliplr": (1,), "flipud": (0,)}
    dims = fixed[op.name] if op.name in fixed else op.integers(1, "dims")
    flipped = {counted(axis, len(layout.axes)) for axis in dims}
    axes = (flip(axis) if i in flipped else axis for i, axis in enumerate(layout.axes))
    return Layout(tuple(merge(axis) for axis in axes))


def roll(op: Operation) -> Layout:
    """``roll``: the rolled axes are opaque."""
    layout = op.layout()
    dims = op.argument(2, "dims")
    if dims is None or dims == ():
        raise UnfollowedError
    axes = list(layout.axes)
    for axis in as_integers(dims):
        at = counted(axis, len(axes))
        axes[at] = op.scrambled(axes[at], op.out_shape[at])
    return Layout(tuple(axes))
