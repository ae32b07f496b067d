"""Operations that read positions given by an index: ``x[...]``, ``index_select``, ``gather``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from attnscope.capture.layout.algebra import Axis, Layout, cut, repeated_axis, settle
from attnscope.capture.layout.operation import (
    UnfollowedError,
    Unknown,
    broadcast,
    counted,
    is_integer,
    is_tensor,
)
from attnscope.capture.layout.pieces import piece

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attnscope.capture.layout.operation import Operation


@dataclass(frozen=True, slots=True)
class _Reader:
    """A tensor index inside ``x[...]``: the axes it reads, and where its own axes would go."""

    index: Layout | Unknown
    consumed: tuple[Axis, ...]
    place: int
    is_mask: bool


def getitem(op: Operation) -> Layout:
    """``x[index]``: integers, slices, None, Ellipsis, tensors and lists.

    An axis read by an integer tensor whose layout is known has that tensor's axes; one read by any
    other tensor, or by a list, is opaque. The other axes stay known.
    """
    items = op.argument(1, "index")
    items = items if isinstance(items, tuple) else (items,)
    for layouts_are_masks in (False, True):
        read = _read(op, [_as_index(item, layouts_are_masks=layouts_are_masks) for item in items])
        if read is not None and read.shape == op.out_shape:
            return read
    raise UnfollowedError


def _as_index(item: Any, *, layouts_are_masks: bool) -> Any:
    """The item, with lists and masks turned into what ``_read`` understands."""
    if isinstance(item, list):
        flat, shape = item, [len(item)]
        while flat and isinstance(flat[0], list):
            flat = flat[0]
            shape.append(len(flat))
        return Unknown(tuple(shape), is_bool=bool(flat) and isinstance(flat[0], bool))
    if isinstance(item, Layout) and layouts_are_masks:
        return Unknown(item.shape, is_bool=True)
    return item


def _read(op: Operation, items: Sequence[Any]) -> Layout | None:
    source = list(op.layout().axes)
    spare = len(source) - sum(_consumes(item) for item in items)
    if spare < 0 or sum(item is Ellipsis for item in items) > 1:
        return None
    axes: list[Axis] = []
    dropped: list[Axis] = []
    readers: list[_Reader] = []
    for item in (*items, *(() if any(i is Ellipsis for i in items) else (Ellipsis,))):
        count = spare if item is Ellipsis else _consumes(item)
        taken, source = source[:count], source[count:]
        if item is None:
            axes.append(())
        elif item is Ellipsis:
            axes.extend(taken)
        elif isinstance(item, slice):
            axes.append(_sliced(op, taken[0], item))
        elif is_integer(item):
            dropped.append(cut(taken[0], *_only(item, taken[0])) or ())
        elif item.shape == () and count:
            dropped.append(())
        else:
            is_mask = isinstance(item, Unknown) and item.is_bool
            readers.append(_Reader(item, tuple(taken), len(axes), is_mask))
    return settle(_with_readers(op, axes, readers), tuple(a for axis in dropped for a in axis))


def _consumes(item: Any) -> int:
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Unknown) and item.is_bool:
        return len(item.shape)
    if is_tensor(item) or isinstance(item, slice) or is_integer(item):
        return 1
    raise UnfollowedError


def _only(index: int, axis: Axis) -> tuple[int, int, int]:
    return counted(index, Layout((axis,)).shape[0]), 1, 1


def _sliced(op: Operation, axis: Axis, item: slice) -> Axis:
    if not all(value is None or is_integer(value) for value in (item.start, item.stop, item.step)):
        raise UnfollowedError
    places = range(*item.indices(Layout((axis,)).shape[0]))
    if not places or places.step < 1:
        raise UnfollowedError
    return piece(op, axis, places.start, places.step, len(places))


def _with_readers(op: Operation, axes: list[Axis], readers: Sequence[_Reader]) -> list[Axis]:
    """Put what tensor indices read where torch puts it: in place if adjacent, else in front."""
    if not readers:
        return axes
    places = {reader.place for reader in readers}
    place = readers[0].place if len(places) == 1 else 0
    ndim = max(1 if reader.is_mask else len(reader.index.shape) for reader in readers)
    shape = op.out_shape[place : place + ndim]
    if len(shape) != ndim:
        raise UnfollowedError
    consumed = [atom for reader in readers for axis in reader.consumed for atom in axis]
    indices = [reader.index for reader in readers if not reader.is_mask]
    if all(atom.repeated for atom in consumed):
        read = [repeated_axis(length) for length in shape]
    elif len(indices) == len(readers) and any(isinstance(index, Layout) for index in indices):
        read = list(broadcast(op, indices, shape).axes)
    else:
        read = [op.opaque(length) for length in shape]
    return [*axes[:place], *read, *axes[place:]]


def index_select(op: Operation) -> Layout:
    """``index_select(dim, index)``."""
    layout = op.layout()
    at = op.axis(1, "dim", ndim=len(layout.axes))
    index, axis = op.argument(2, "index"), layout.axes[at]
    if isinstance(index, Layout) and len(index.axes) == 1:
        return layout.replace(at, index.axes[0])
    return layout.replace(at, op.scrambled(axis, op.out_shape[at]))


def embedding(op: Operation) -> Layout:
    """``F.embedding``: the axes of the ids, then the table's features."""
    ids, table = op.layout(), op.argument(1, "weight")
    at = len(ids.axes)
    last = table.axes[1] if isinstance(table, Layout) else op.new(op.out_shape[at], at)
    return Layout((*ids.axes, last))


def gather(op: Operation) -> Layout:
    """``gather`` and ``take_along_dim``: along ``dim`` the index's axis, elsewhere where both meet.

    The axis of an index that isn't known is opaque.
    """
    source, index = op.argument(0, "input", "self"), op.argument(1, "dim")
    dim: Any = op.argument(2, "index")
    if is_integer(index):
        index, dim = dim, index
    elif not is_tensor(index):
        index, dim = op.argument(1, "indices", "index"), op.argument(2, "dim")
    ndim = len(op.out_shape)
    operands = source, index
    if not is_integer(dim) or any(not is_tensor(t) or len(t.shape) != ndim for t in operands):
        raise UnfollowedError
    at = counted(dim, ndim)
    axes = list(broadcast(op, [_trimmed(op, source, at), index], op.out_shape).axes)
    if not isinstance(index, Layout):
        axes[at] = op.opaque(op.out_shape[at])
    return settle(axes)


def _trimmed(op: Operation, source: Layout | Unknown, at: int) -> Layout | Unknown:
    """The part of a source that ``gather`` can reach, its axis ``at`` left to the index."""
    shape = (*op.out_shape[:at], 1, *op.out_shape[at + 1 :])
    lengths = [min(own, out) for own, out in zip(source.shape, shape, strict=True)]
    if isinstance(source, Unknown):
        return Unknown(tuple(lengths))
    pairs = zip(source.axes, lengths, strict=True)
    axes = [piece(op, axis, 0, 1, length) for axis, length in pairs]
    axes[at] = ()
    return settle(axes)
