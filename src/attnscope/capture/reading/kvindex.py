"""Recognises kv heads that were picked by a table of indices, as in `k[:, table]`."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from attnscope.capture.reading.trails import Trails
from attnscope.capture.trail import LAYOUT, Trail, Unfollowed


def kv_index(trail: Trail | None, heads: int) -> tuple[int, ...] | None:
    """Return for each query head the kv head that was picked for it; None: none were picked.

    The table has to stand on an axis that was cut off the features of a projection.
    """
    trails = Trails()
    step = trail
    while step is not None and step.name in LAYOUT:
        before = next((leaf for leaf in step.args if isinstance(leaf, Trail)), None)
        found = _table(step)
        layout = trails.layout(before)
        if found is not None and layout is not None:
            axis, table = found
            atoms = layout.axes[axis] if axis < len(layout.axes) else ()
            features = bool(atoms) and all(trails.is_feature(a.origin, a.axis) for a in atoms)
            if features and table.numel() == heads:
                return tuple(int(index) for index in table % layout.shape[axis])
        step = before
    return None


def _table(step: Trail) -> tuple[int, Tensor] | None:
    """Return the axis and the indices where `step` picks along one axis by a table."""
    if step.name == "index_select" and len(step.args) > 2:  # tensor, axis, index
        axis, table = step.args[1], _indices(step.args[2])
        return (axis, table) if table is not None and isinstance(axis, int) else None
    if step.name != "getitem":
        return None
    items = step.args[1] if isinstance(step.args[1], tuple) else (step.args[1],)
    for axis, item in enumerate(items):
        table = _indices(item)
        if table is not None:
            return axis, table
        if not isinstance(item, slice):
            return None
    return None


def _indices(leaf: object) -> Tensor | None:
    value = leaf.value if isinstance(leaf, Unfollowed) else None
    is_table = isinstance(value, Tensor) and value.dim() == 1 and value.dtype == torch.int64
    return value if is_table else None


def ranks(index: Iterable[int]) -> tuple[int, ...]:
    """Number the picked kv heads from 0 in the order in which they are first met."""
    known: dict[int, int] = {}
    return tuple(known.setdefault(one, len(known)) for one in index)


def picked(tensor: Tensor, index: tuple[int, ...]) -> Tensor:
    """Return each kv head once, from (batch, heads, tokens, dim)."""
    order = ranks(index)
    return tensor[:, [order.index(rank) for rank in range(max(order) + 1)]]


def summed(gradient: Tensor, index: tuple[int, ...]) -> Tensor:
    """Add up what the query heads of each kv head hold."""
    order = torch.tensor(ranks(index), device=gradient.device)
    shape = (gradient.shape[0], int(order.max()) + 1, *gradient.shape[2:])
    return gradient.new_zeros(shape).index_add(1, order, gradient)
