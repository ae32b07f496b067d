"""Whether one tensor fits another as it is or turned: by the kinds of layer, sizes and use."""

from __future__ import annotations

import inspect
import re
from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any

from attnscope.differ.pairing.arrangement import (
    Arrangement,
    View,
    columns_of,
    flat,
    rows_of,
    whole,
)
from attnscope.differ.pairing.places import Slot
from attnscope.differ.pairing.tensors import Weight


def fit(
    candidate: Slot, reference: Slot, leaf: str, heads: int | None = None
) -> Arrangement | None:
    """Return the reference's tensor turned as the candidate's, or None where the sizes differ.

    A square matrix is taken untransposed, unless the two layers' types (or how a raw parameter
    is multiplied) say otherwise.
    """
    mine, theirs = candidate.leaves.get(leaf), reference.leaves.get(leaf)
    if mine is None or theirs is None:
        return None
    for view, seen in _views(candidate, mine, reference, theirs, heads):
        if view.size(mine.shape) == seen.size(theirs.shape):
            return whole(mine.shape, view, theirs, seen)
    return None


def _views(
    candidate: Slot, mine: Weight, reference: Slot, theirs: Weight, heads: int | None
) -> Sequence[tuple[View, View]]:
    ours = canonical_views(candidate, mine, heads)
    others = canonical_views(reference, theirs, heads)
    pairs = [(view, seen) for view in ours for seen in others]
    if len(mine.shape) == len(theirs.shape) and (len(ours) > 1 or len(others) > 1):
        pairs.sort(key=lambda pair: pair[0] != pair[1])  # untransposed first
    if mine.kind == theirs.kind and mine.shape == theirs.shape:
        plain = rows_of(len(mine.shape))
        pairs.insert(0, (plain, plain))
    return pairs


def canonical_views(slot: Slot, weight: Weight, heads: int | None = None) -> list[View]:
    """Return the views of a tensor as a matrix (outputs, inputs), the likeliest first."""
    dimensions = len(weight.shape)
    bias = slot.leaves.get("bias") is weight
    if dimensions < 2 or bias or slot.kind == "norm":
        return [flat(dimensions)]
    if slot.kind == "conv1d":
        return [columns_of(dimensions)]
    if slot.kind in {"linear", "attention", "embedding"} and dimensions == 2:
        return [rows_of(dimensions)]
    if slot.kind == "conv":
        inner = tuple(range(1, dimensions))
        return [rows_of(dimensions), View((0, *inner[1:], inner[0]), 1)]
    if dimensions == 2:
        used = _use(weight, slot.path[-1]) if slot.raw else None
        return [used] if used else [rows_of(2), columns_of(2)]
    if dimensions > 4:
        return [rows_of(dimensions)]
    views = [
        View(order, rows)
        for order in permutations(range(dimensions))
        for rows in range(1, dimensions)
    ]
    return sorted(views, key=lambda view: _unlikely(view, slot.part, weight.shape, heads))


def _unlikely(
    view: View, part: str, shape: tuple[int, ...], heads: int | None
) -> tuple[bool, int, int]:
    """Return a rank: the head axis belongs to the inputs of o and to the outputs of q, k, v."""
    outputs = {shape[axis] for axis in view.axes[: view.rows]}
    if heads in shape:
        misplaced = (heads in outputs) == (part == "o")
    else:
        misplaced = part == "o" and view.axes[: view.rows] != (len(shape) - 1,)
    upset = sum(
        view.axes[i] > view.axes[j]
        for part_axes in (range(view.rows), range(view.rows, len(view.axes)))
        for i in part_axes
        for j in part_axes
        if i < j
    )
    return misplaced, upset, view.axes[0]


def _use(weight: Weight, name: str) -> View | None:
    """Return how a raw matrix is multiplied where the code of its module says it in one way."""
    kind: Any = type(weight.owners[0])
    code = _code(kind)
    this = rf"self\.{re.escape(name)}\b"
    turned = r"\s*\.\s*(?:T\b|mT\b|t\(\)|transpose\()"
    product = rf"(?:@\s*|matmul\([^,()]+,\s*|mm\([^,()]+,\s*){this}"
    linear = rf"linear\(\s*[^,()]+,\s*{this}"
    columns = _found(rf"{product}(?!{turned})", code) or _found(rf"{linear}{turned}", code)
    rows = _found(rf"{linear}(?!{turned})", code) or _found(rf"{product}{turned}", code)
    if columns == rows:
        return None
    return columns_of(2) if columns else rows_of(2)


@lru_cache(maxsize=64)
def _code(kind: Hashable) -> str:
    """Return the code of a class, empty where it has none at hand."""
    try:
        return inspect.getsource(kind)  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def _found(pattern: str, code: str) -> bool:
    return re.search(pattern, code) is not None
