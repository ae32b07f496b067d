"""Pairs by name: exact names, then roles, fused projections, and at last shape and order.

Nothing here looks at values, so that a fault in them can't choose the pair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from torch import nn

from attnscope.differ.pairing.arrangement import Arrangement
from attnscope.differ.pairing.fitting import fit
from attnscope.differ.pairing.fused import Side, joined
from attnscope.differ.pairing.geometry import geometry_at
from attnscope.differ.pairing.packing import Packing
from attnscope.differ.pairing.parts import roles_of
from attnscope.differ.pairing.places import Role, Slot
from attnscope.differ.pairing.tensors import Weight

Method: TypeAlias = Literal["value", "name", "shape", "given"]
_FUSED = {"q", "k", "v", "qkv", "kv", "qk", "gate", "up", "gate_up", "o"}


@dataclass(frozen=True, slots=True)
class Proposal:
    """How a tensor of the candidate would follow from the reference's.

    told: whether names say it, and nothing was guessed from an order; ordered: whether the order
    of the parts in a fused tensor is known as well.
    """

    arrangement: Arrangement
    method: Method
    why: str
    told: bool = False
    ordered: bool = True


class Names:
    """The slots of two models and the pairs that their names propose.

    Args:
        candidate: the model whose tensors look for a counterpart.
        reference: the model that holds the counterparts.
        weights: the tensors of both.
        packings: of fused projections, by name, where something better than the class is known.
    """

    def __init__(
        self,
        candidate: nn.Module,
        reference: nn.Module,
        weights: tuple[Sequence[Weight], Sequence[Weight]],
        packings: Mapping[str, Packing],
    ) -> None:
        self.candidate, self.reference = candidate, reference
        self.mine = roles_of(candidate, weights[0])
        self.theirs = roles_of(reference, weights[1])
        _level(self.mine, self.theirs)
        self.packings = packings
        self.proposals: dict[str, Proposal] = {}
        self._taken: set[str] = set()
        for step in (self._exact, self._roles, self._fused, self._shapes):
            step()

    def _propose(
        self,
        weight: Weight,
        found: Arrangement | None,
        method: Method,
        why: str,
        *,
        told: bool = False,
        ordered: bool = True,
    ) -> None:
        if found is None or weight.name in self.proposals:
            return
        self.proposals[weight.name] = Proposal(found, method, why, told, ordered)
        self._taken |= set(found.references)

    def _exact(self) -> None:
        """Pair equal paths, as far as the sizes fit."""
        theirs = {slot.path: slot for slot in self.theirs}
        for slot in self.mine:
            other = theirs.get(slot.path)
            if other is None or other.raw != slot.raw:
                continue
            if self._differently_packed(slot, other):
                continue
            for leaf, weight in slot.leaves.items():
                found = self._fit(slot, other, leaf)
                self._propose(weight, found, "name", "the same name", told=slot.kind != "norm")

    def _roles(self) -> None:
        """Pair equal roles, as far as the sizes fit and both sides have as many of them."""
        mine, theirs = (_by_part(slots) for slots in (self.mine, self.theirs))
        for role, every in mine.items():
            slots, others = every, theirs.get(role, [])
            if len(slots) != len(others):
                others = [slot for slot in others if not self._used(slot)]
                slots = [slot for slot in slots if not self._done(slot)]
            if len(slots) != len(others):
                continue
            for slot, other in zip(slots, others, strict=True):
                if self._differently_packed(slot, other):
                    continue
                for leaf, weight in slot.leaves.items():
                    why = f"{slot.role(leaf)}"
                    told = slot.told and other.told
                    self._propose(weight, self._fit(slot, other, leaf), "name", why, told=told)

    def _fused(self) -> None:
        """Pair q, k, v (and gate, up) where one side has them in one tensor, or in many."""
        groups: dict[tuple[int, int, str], tuple[list[Slot], list[Slot]]] = {}
        for at, slots in enumerate((self.mine, self.theirs)):
            for slot in slots:
                if slot.part in _FUSED:
                    key = (slot.stack, slot.layer, slot.zone)
                    groups.setdefault(key, ([], []))[at].append(slot)
        for mine, theirs in groups.values():
            if all(self._done(slot) for slot in mine):
                continue
            sides = (
                Side(self.candidate, mine, self.packings),
                Side(self.reference, theirs, self.packings),
            )
            told = all(slot.told for slot in (*mine, *theirs) if slot.part != "o")
            ordered = all(side.ordered for side in sides)
            for weight, found, why in joined(*sides):
                self._propose(weight, found, "name", why, told=told, ordered=ordered)

    def _shapes(self) -> None:
        """Pair what is left by shape: inside one layer in order, else where it is unique."""
        places: tuple[Callable[[Slot], object], ...] = (
            lambda slot: (slot.stack, slot.layer, slot.zone),
            lambda slot: (slot.stack, slot.layer),
            lambda slot: slot.layer >= 0,
        )
        for place in places:
            mine, theirs = (self._left(slots, place) for slots in (self.mine, self.theirs))
            for key, left in mine.items():
                right = theirs.get(key, [])
                if len(left) != len(right) or (len(left) > 1 and place is not places[0]):
                    continue
                if len(left) > 1 and key and not _alike(left, right):
                    continue
                why = (
                    "the only one of its shape there"
                    if len(left) == 1
                    else ("its shape, in order of registration")
                )
                for (slot, leaf, weight), (other, _, _) in zip(left, right, strict=True):
                    self._propose(weight, self._fit(slot, other, leaf), "shape", why)

    def _left(
        self, slots: Iterable[Slot], place: Callable[[Slot], object]
    ) -> dict[object, list[tuple[Slot, str, Weight]]]:
        done = self.proposals if slots is self.mine else self._taken
        found: dict[object, list[tuple[Slot, str, Weight]]] = defaultdict(list)
        seen = set[str]()
        for slot in slots:
            for leaf, weight in slot.leaves.items():
                if weight.name not in done and weight.name not in seen and not weight.buffer:
                    seen.add(weight.name)
                    sizes = tuple(sorted(slot.size if leaf == "weight" else weight.shape))
                    found[place(slot), leaf, slot.kind == "norm", sizes].append(
                        (slot, leaf, weight)
                    )
        return found

    def _fit(self, slot: Slot, other: Slot, leaf: str) -> Arrangement | None:
        heads = None
        if len(slot.main.shape) != len(other.main.shape) or len(slot.main.shape) > 2:
            heads = geometry_at(self.candidate, slot.path).heads
            heads = heads or geometry_at(self.reference, other.path).heads
        return fit(slot, other, leaf, heads)

    def _differently_packed(self, slot: Slot, other: Slot) -> bool:
        """Whether both are fused and known to hold their parts in another order."""
        if slot.part not in {"qkv", "kv"} or slot.part != other.part:
            return False
        mine = Side(self.candidate, [slot], self.packings).packing(slot)
        theirs = Side(self.reference, [other], self.packings).packing(other)
        return mine is not None and theirs is not None and mine != theirs

    def _done(self, slot: Slot) -> bool:
        return all(weight.name in self.proposals for weight in slot.leaves.values())

    def _used(self, slot: Slot) -> bool:
        return all(weight.name in self._taken for weight in slot.leaves.values())


def _by_part(slots: Iterable[Slot]) -> dict[Role, list[Slot]]:
    found: dict[Role, list[Slot]] = defaultdict(list)
    for slot in sorted(slots, key=lambda slot: slot.number):
        found[Role(slot.stack, slot.layer, slot.zone, slot.part, "")].append(slot)
    return found


def _alike(
    left: Sequence[tuple[Slot, str, Weight]], right: Sequence[tuple[Slot, str, Weight]]
) -> bool:
    """Whether names speak against pairing in order: both sides' parts are known and differ."""
    return all(
        mine[0].part.startswith("?")
        or other[0].part.startswith("?")
        or mine[0].part == other[0].part
        for mine, other in zip(left, right, strict=True)
    )


def _level(mine: Sequence[Slot], theirs: Sequence[Slot]) -> None:
    """Let a bare layer meet a model with one layer: without a number both are the same."""
    layers = [{slot.layer for slot in slots} - {-1} for slots in (mine, theirs)]
    if layers[0] == layers[1] or set(map(len, layers)) != {0, 1}:
        return
    for slot in (*mine, *theirs):
        slot.layer = -1
