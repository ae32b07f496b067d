"""Reads the trail of q, k or v: its layout since the projection, and the scale on the way."""

from __future__ import annotations

import itertools
from typing import Any

from torch import Tensor

from attnscope.calls.program import map_leaves
from attnscope.capture.layout import Layout, Unknown, follow, fresh
from attnscope.capture.trail import LAYOUT, Trail, Unfollowed

Number = float | Tensor

_KEEP_SCALE = LAYOUT | {"clone", "contiguous", "dropout", "masked_fill", "neg", "conj"}
_SUMS = frozenset({"add", "sub", "cat", "stack", "radd", "rsub", "where"})


class Trails:
    """Layouts of several trails over common origins, so that their atoms can be compared."""

    def __init__(self) -> None:
        """Start without origins."""
        self._count = itertools.count()
        self._known: dict[int, tuple[Trail, Layout | None]] = {}
        self._features: dict[int, tuple[int, ...]] = {}

    def layout(self, trail: Trail | None) -> Layout | None:
        """Return the layout of a trail's tensor, or None where it can't be told."""
        if trail is None:
            return None
        if id(trail) not in self._known:
            self._known[id(trail)] = trail, self._layout(trail)  # kept alive: its id stays its own
        return self._known[id(trail)][1]

    def is_feature(self, origin: int, axis: int) -> bool:
        """Return whether this axis of this origin holds the features that a projection made."""
        return axis in self._features.get(origin, ())

    def _layout(self, trail: Trail) -> Layout | None:
        if trail.is_origin:
            return self._origin(trail)
        args, kwargs = map_leaves((trail.args, trail.kwargs or {}), self._leaf)
        begun: list[int] = []

        def new_origin() -> int:
            begun.append(next(self._count))
            return begun[-1]

        layout = follow(
            trail.name,
            args,
            kwargs,
            trail.shape,
            new_origin=new_origin,
            output_index=trail.output_index,
        )
        if trail.name == "stack" and layout is not None and self._stacks_projections(args):
            for atom in layout.atoms:  # one projection a head: the new axis is the heads'
                if atom.origin in begun and not atom.opaque:
                    self._features[atom.origin] = (atom.axis,)
        return layout

    def _stacks_projections(self, args: Any) -> bool:
        pieces = [leaf for leaf in _flat(args) if isinstance(leaf, Layout)]
        return bool(pieces) and all(
            any(self.is_feature(atom.origin, atom.axis) for atom in piece.atoms) for piece in pieces
        )

    def _origin(self, trail: Trail) -> Layout:
        number = next(self._count)
        layout = fresh(trail.shape, number)
        self._features[number] = trail.features
        before = trail.args[0] if trail.args else None
        known = self.layout(before) if isinstance(before, Trail) else None
        for mine, out in trail.kept:
            if known is not None and known.shape[mine] == trail.shape[out]:
                layout = layout.replace(out, known.axes[mine])
        return layout

    def _leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, Trail):
            return self.layout(leaf) or Unknown(leaf.shape)
        if isinstance(leaf, Unfollowed):
            return Unknown(leaf.shape, leaf.boolean)
        return leaf


def scale_of(trail: Trail | None) -> Number:
    """Return the product of the single numbers that the tensor was multiplied with on its way.

    Counted since the projection or normalisation that made it; rotary embedding is passed through.
    """
    return _scale(trail, 0) if trail is not None else 1.0


def _scale(trail: Trail, depth: int) -> Number:
    name = trail.name.removesuffix("_")
    if trail.is_origin or depth > 60:
        return 1.0
    before = [leaf for leaf in _flat(trail.args) if isinstance(leaf, Trail)]
    if name in {"mul", "rmul", "div"} and before:
        return _times(trail, name, before, depth)
    if name in _SUMS and before:
        scales = [_scale(one, depth + 1) for one in before]
        first = scales[0]
        same = all(not isinstance(s, Tensor) and s == first for s in scales)
        return first if same or len(scales) == 1 else 1.0
    if name in _KEEP_SCALE and before:
        return _scale(before[0], depth + 1)
    return 1.0


def _times(trail: Trail, name: str, before: list[Trail], depth: int) -> Number:
    largest = max(before, key=lambda one: _size(one.shape))
    scale = _scale(largest, depth + 1)
    for leaf in trail.args:
        number = leaf.value if isinstance(leaf, Unfollowed) else leaf
        if isinstance(number, bool) or not isinstance(number, (int, float, Tensor)):
            continue
        if isinstance(number, Tensor) and number.numel() != 1:
            continue
        if isinstance(number, Tensor):
            number = float(number) if not number.is_meta else 1.0
        scale = scale / number if name == "div" else scale * number
    return scale


def _flat(tree: Any) -> list[Any]:
    if isinstance(tree, (tuple, list)):
        return [leaf for item in tree for leaf in _flat(item)]
    return [tree]


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for axis in shape:
        size *= axis
    return size
