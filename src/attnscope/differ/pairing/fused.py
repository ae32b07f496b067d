"""Pairing fused projections with split ones, and with those fused in another order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from torch import nn

from attnscope.differ.pairing import words
from attnscope.differ.pairing.arrangement import Arrangement, View, from_rows
from attnscope.differ.pairing.fitting import canonical_views
from attnscope.differ.pairing.geometry import Geometry, geometry_at
from attnscope.differ.pairing.packing import FLAT, Packing, Rows, copied_per_group, known_packing
from attnscope.differ.pairing.places import Slot
from attnscope.differ.pairing.tensors import Weight

_PARTS_OF = {
    "qkv": ("q", "k", "v"),
    "kv": ("k", "v"),
    "qk": ("q", "k"),
    "gate_up": ("gate", "up"),
}


class Side:
    """The projections of one attention (or feed-forward) of one model."""

    def __init__(
        self, model: nn.Module, slots: Sequence[Slot], packings: Mapping[str, Packing]
    ) -> None:
        self.model, self.slots, self.packings = model, slots, packings

    def geometry(self, q_rows: int | None = None) -> Geometry:
        """Return the heads, as far as the modules around say."""
        found = next((slot for slot in self.slots if slot.part in {"q", "qkv", "kv", "k"}), None)
        return geometry_at(self.model, found.path if found else (), q_rows)

    def packing(self, slot: Slot) -> Packing | None:
        """Return how a fused projection is packed, where that is known."""
        given = next(
            (
                self.packings[name]
                for w in slot.leaves.values()
                for name in w.names
                if name in self.packings
            ),
            None,
        )
        if given is not None or slot.part not in {"qkv", "kv"}:
            return given
        module = self.model
        kinds = [type(module)]
        for part in slot.path:
            module = getattr(module, part, module)
            kinds.append(type(module))
        geometry = self.geometry()
        return next(
            (found for kind in reversed(kinds) if (found := known_packing(kind, geometry))), None
        )

    @property
    def ordered(self) -> bool:
        """Whether the order of the parts in every fused projection is known, not assumed."""
        return all(
            slot.kind == "attention" or self.packing(slot) is not None or words.spelt(slot.path[-1])
            for slot in self.slots
            if slot.part in _PARTS_OF
        )

    def sizes(self, leaf: str) -> dict[str, int]:
        """Return the rows of the parts that stand alone."""
        found: dict[str, int] = {}
        for slot in self.slots:
            weight = slot.leaves.get(leaf) or slot.leaves.get("weight")
            if slot.part not in _PARTS_OF and weight is not None:
                heads = self.geometry().heads
                height = canonical_views(slot, weight, heads)[0].size(weight.shape)[0]
                found[slot.part] = found.get(slot.part, 0) + height
        return found

    def parts(self, leaf: str, width: int, sizes: Mapping[str, int]) -> dict[str, Rows]:
        """Return the rows of each part, whether it stands alone, in pieces or fused.

        Args:
            leaf: weights or biases.
            width: inputs of the projections.
            sizes: rows of the parts as the other side has them.
        """
        found: dict[str, Rows] = {}
        for slot in sorted(self.slots, key=lambda slot: slot.number):
            weight = slot.leaves.get(leaf)
            view = self._view(slot, weight, width, leaf) if weight is not None else None
            if weight is None or view is None or slot.part == "o":
                continue
            for part, rows in self._rows_of(slot, view.size(weight.shape)[0], sizes).items():
                piece = Rows.of(weight, view, rows)
                found[part] = found[part].followed_by(piece) if part in found else piece
        return found

    def _view(self, slot: Slot, weight: Weight, width: int, leaf: str) -> View | None:
        """Return the view of a tensor as (outputs, inputs) with that many inputs."""
        views = canonical_views(slot, weight, self.geometry().heads)
        return next(
            (view for view in views if leaf == "bias" or view.size(weight.shape)[1] == width), None
        )

    def _rows_of(self, slot: Slot, height: int, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
        names = _PARTS_OF.get(slot.part)
        if names is None:
            return {slot.part: np.arange(height)}
        packing = self.packing(slot)
        if packing is None:
            order = words.order_in(slot.path[-1]) if slot.part == "qkv" else names
            packing = Packing(FLAT.groups, tuple(order))
        shares = self._shares(names, height, sizes)
        if shares is None or any(share % packing.groups for share in shares.values()):
            return {}
        packing = Packing(packing.groups, tuple(part for part in packing.order if part in names))
        return {part: packing.rows(part, shares) for part in names}

    def _shares(
        self, names: Sequence[str], height: int, sizes: Mapping[str, int]
    ) -> dict[str, int] | None:
        """Return the rows of each part of a fused tensor: by its heads, the other side, equally."""
        rows = self.geometry().rows if names[0] != "gate" else None
        for known in (rows, sizes):
            if known and all(name in known for name in names):
                shares = {name: known[name] for name in names}
                if sum(shares.values()) == height:
                    return shares
        if height % len(names):
            return None
        return dict.fromkeys(names, height // len(names))


def joined(mine: Side, theirs: Side) -> Iterator[tuple[Weight, Arrangement | None, str]]:
    """Yield each projection of the candidate as rows of the reference's, with the reason."""
    yield from _outputs(mine, theirs)
    for leaf in ("weight", "bias"):
        for width in _widths(mine) if leaf == "weight" else (1,):
            ours = mine.parts(leaf, width, theirs.sizes(leaf))
            others = theirs.parts(leaf, width, mine.sizes(leaf))
            yield from _leaf(ours, others, leaf, (mine, theirs))


def _widths(side: Side) -> list[int]:
    found = {}
    for slot in side.slots:
        weight = slot.leaves.get("weight")
        if weight is not None:
            for view in canonical_views(slot, weight):
                found[view.size(weight.shape)[1]] = True
    return list(found)


def _leaf(
    ours: Mapping[str, Rows], others: Mapping[str, Rows], leaf: str, sides: tuple[Side, Side]
) -> Iterator[tuple[Weight, Arrangement | None, str]]:
    """Lay the reference's rows of each part where the candidate has them."""
    sources: list[tuple[Weight, View]] = []
    target: dict[str, tuple[Weight, View, np.ndarray, np.ndarray]] = {}
    missing = set[str]()
    for part, rows in ours.items():
        other = _matched(part, len(rows.row), others, sides)
        for which, (weight, view) in enumerate(rows.sources):
            height = view.size(weight.shape)[0]
            blank = np.full(height, -2), np.zeros(height, dtype=np.int64)
            _, _, source, row = target.setdefault(weight.name, (weight, view, *blank))
            here = rows.source == which
            if other is None:
                if leaf == "weight" or part in others:
                    missing.add(weight.name)
                source[rows.row[here]] = -1
                continue
            source[rows.row[here]] = other.source[here] + len(sources)
            row[rows.row[here]] = other.row[here]
        if other is not None:
            sources += other.sources
    for name, (weight, view, source, row) in target.items():
        if name in missing or (source == -2).any() or not (source >= 0).any():
            continue
        yield weight, _merged(weight, view, sources, source, row), _why(sides)


def _merged(
    weight: Weight,
    view: View,
    sources: Sequence[tuple[Weight, View]],
    source: np.ndarray,
    row: np.ndarray,
) -> Arrangement:
    """Return the arrangement, one tensor of the reference counted once for all its parts."""
    unique = list(dict.fromkeys(sources))
    number = np.array([unique.index(entry) for entry in sources])
    return from_rows(weight.shape, view, unique, np.where(source >= 0, number[source], -1), row)


def _matched(
    part: str, wanted: int, others: Mapping[str, Rows], sides: tuple[Side, Side]
) -> Rows | None:
    """Return the reference's rows of a part, kv heads copied per group where the counts differ."""
    other = others.get(part)
    if other is None or len(other.row) == wanted or part not in {"k", "v"}:
        return other if other is not None and len(other.row) == wanted else None
    q_rows = len(others["q"].row) if "q" in others else None
    dim = sides[1].geometry(q_rows).head_dim or sides[0].geometry(q_rows).head_dim
    index = copied_per_group(len(other.row), wanted, dim)
    return None if index is None else other.taken(index)


def _why(sides: tuple[Side, Side]) -> str:
    told = [
        f"{slot.path[-1]} holds {side.packing(slot) or 'its parts in turn'}"
        for side in sides
        for slot in side.slots
        if slot.part in _PARTS_OF
    ]
    return "; ".join(dict.fromkeys(told)) or "pieces of one projection"


def _outputs(mine: Side, theirs: Side) -> Iterator[tuple[Weight, Arrangement | None, str]]:
    """Pair output projections that one side has per head: pieces of the inputs of the other's."""
    ours, others = (
        [slot for slot in side.slots if slot.part == "o" and "weight" in slot.leaves]
        for side in (mine, theirs)
    )
    if len(ours) == len(others) or not ours or not others:
        return
    pieces = [_columns(ours, mine), _columns(others, theirs)]
    if len(pieces[0].row) != len(pieces[1].row):
        return
    for which, (weight, view) in enumerate(pieces[0].sources):
        here = pieces[0].source == which
        found = from_rows(
            weight.shape, view, pieces[1].sources, pieces[1].source[here], pieces[1].row[here]
        )
        yield weight, found, "output projections per head, side by side"


def _columns(slots: Sequence[Slot], side: Side) -> Rows:
    pieces = []
    heads = side.geometry().heads
    for slot in sorted(slots, key=lambda slot: slot.number):
        weight = slot.leaves["weight"]
        view = canonical_views(slot, weight, heads)[0].flipped
        pieces.append(Rows.of(weight, view, np.arange(view.size(weight.shape)[0])))
    found = pieces[0]
    for piece in pieces[1:]:
        found = found.followed_by(piece)
    return found
