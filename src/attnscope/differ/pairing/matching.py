"""The order of asking: the user's map, values, names; then what is copied and what is left over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import nn

from attnscope.differ.pairing.arrangement import Arrangement, Block, flat, whole
from attnscope.differ.pairing.coverage import Uncovered, copied_rows, twin, uncovered
from attnscope.differ.pairing.fitting import canonical_views
from attnscope.differ.pairing.given import Given, read_map
from attnscope.differ.pairing.names import Method, Names
from attnscope.differ.pairing.packing import Packing
from attnscope.differ.pairing.tensors import Weight, weights_of
from attnscope.differ.pairing.values import ValueIndex, narrow, same
from attnscope.errors import InputError

Proof: TypeAlias = Literal["equal", "copied", "differs"]
_LOADED = 0.5  # of the tensors that can prove anything hold the reference's values: it was loaded


@dataclass(slots=True)
class Found:
    """How one tensor follows from the reference, by what, and with which proof."""

    arrangement: Arrangement
    method: Method
    why: str
    proof: Proof = "differs"
    largest: float = 0.0
    note: str = ""


class Matching:
    """All tensors of two models, paired as far as they can be.

    Args:
        candidate: the model under test.
        reference: the model it is compared with.
        wish: "auto", "keep", "copy", a map or where it is written.
        packings: of fused projections, by name.
        idle: parameters of either side that take no part in its output.

    Raises:
        InputError: the wish can't be read.
    """

    def __init__(
        self,
        candidate: nn.Module,
        reference: nn.Module,
        wish: str | Path | Mapping[str, Any],
        packings: Mapping[str, Packing],
        idle: tuple[Collection[str], Collection[str]] = ((), ()),
    ) -> None:
        self.mine, self.theirs = weights_of(candidate), weights_of(reference)
        self.dtype = narrow((*self.mine, *self.theirs))
        self.wish, entries = _read(wish)
        self.given = Given(entries, _by_name(self.mine), _by_name(self.theirs))
        self.names = Names(candidate, reference, (self.mine, self.theirs), packings)
        self.tensors = {weight.name: weight.tensor for weight in self.theirs}
        self.found: dict[str, Found] = {}
        self.left: list[tuple[str, Weight, str]] = []
        self.copies: dict[str, Arrangement] = {}
        self.reasons: list[str] = []
        self._idle = idle
        self._by_value: set[str] = set()
        for weight in self.mine:
            self._find(weight)
        self._biases_beside()
        self._constants_in_order()
        self._prove()
        self.unpaired: tuple[list[Weight], list[Uncovered]] = (self._without(), self._untaken())

    @cached_property
    def _index(self) -> ValueIndex:
        return ValueIndex(self.theirs, self.dtype)

    # finding

    def _find(self, weight: Weight) -> None:
        name = weight.name
        if name in self.given.alone:
            return
        if name in self.given.arrangements:
            self.found[name] = Found(self.given.arrangements[name], "given", "said by map=")
            return
        proposal = self.names.proposals.get(name)
        if weight.constant is None and not self._pairs_by_name_alone(weight):
            found = proposal.arrangement if proposal else None
            if found is None or not self._equal(weight, found):
                near = found.references if found else ()
                found = self._index.find(weight, near)
            if found is not None:
                note = _otherwise(found, proposal.arrangement if proposal else None)
                self._by_value.add(name)
                if self.wish != "copy" or proposal is None:
                    why = "its values are there"
                    self.found[name] = Found(found, "value", why, note=note)
                    return
        if proposal is not None and (not weight.buffer or self._pairs_by_name_alone(weight)):
            self.found[name] = Found(proposal.arrangement, proposal.method, proposal.why)

    def _pairs_by_name_alone(self, weight: Weight) -> bool:
        """Whether a tensor is a running statistic, whose values prove nothing."""
        return weight.buffer and weight.name.rpartition(".")[2].startswith("running_")

    def _biases_beside(self) -> None:
        """Give biases of one value the rows that the weight beside them was found to have."""
        theirs = {
            slot.leaves["weight"].name: slot
            for slot in self.names.theirs
            if "weight" in slot.leaves
        }
        for slot in self.names.mine:
            bias, weight = slot.leaves.get("bias"), slot.leaves.get("weight")
            if bias is None or weight is None or bias.constant is None:
                continue
            found = self.found.get(weight.name)
            if found is None or found.method != "value" or bias.name in self.given.arrangements:
                continue
            if canonical_views(slot, weight)[0] != found.arrangement.view:
                continue
            blocks = []
            for block in found.arrangement.blocks:
                other = theirs.get(block.reference)
                if other is None or "bias" not in other.leaves:
                    break
                if canonical_views(other, other.leaves["weight"])[0] != block.view:
                    break
                beside = other.leaves["bias"]
                seen = flat(len(beside.shape))
                blocks.append(Block(beside.name, beside.shape, seen, block.runs))
            else:
                told = Arrangement(bias.shape, flat(len(bias.shape)), tuple(blocks))
                if told.view.size(bias.shape)[0] == sum(len(b.index()) for b in blocks):
                    self.found[bias.name] = Found(told, "name", f"as {weight.name} beside it")

    def _constants_in_order(self) -> None:
        """Pair tensors of one and the same value that no name tells apart, in their order."""
        taken = {name for found in self.found.values() for name in found.arrangement.references}
        groups: dict[object, tuple[list[Weight], list[Weight]]] = {}
        for at, (weights, done) in enumerate(((self.mine, self.found), (self.theirs, taken))):
            for weight in weights:
                if weight.name in done or weight.constant is None or weight.buffer:
                    continue
                if not self._set_aside(weight, at):
                    key = (weight.shape, weight.constant, weight.kind == "norm")
                    groups.setdefault(key, ([], []))[at].append(weight)
        for ours, others in groups.values():
            if len(ours) != len(others):
                continue
            for weight, other in zip(ours, others, strict=True):
                view = flat(len(weight.shape))
                found = whole(weight.shape, view, other, view)
                self.found[weight.name] = Found(found, "shape", "the same constant, in order")

    def _set_aside(self, weight: Weight, side: int) -> bool:
        return weight.name in (self.given.ignored if side else self.given.alone)

    # proving

    def _prove(self) -> None:
        loaded = self._loaded()
        for weight in self.mine:
            found = self.found.get(weight.name)
            if found is None:
                continue
            value = found.arrangement.of(self.tensors) if found.arrangement.references else None
            if value is not None and same(weight.tensor, value, self.dtype):
                found.proof = "equal"
                continue
            if value is not None and weight.tensor.numel():
                wide = torch.promote_types(torch.float32, weight.tensor.dtype)
                apart = (weight.tensor.detach().cpu().to(wide) - value.detach().cpu()).abs()
                found.largest = float(apart.max())
            copies = self.wish == "copy" or found.method == "given" or not loaded
            own = found.method != "given" and self._own_table(weight)
            found.proof = "copied" if copies and not own and self.wish != "keep" else "differs"
            if own:
                found.note = "frozen, so it is taken for a table that the module makes itself"
            elif found.proof == "differs" and self.wish != "keep":
                found.note = found.note or "the others correspond, so this one was not copied"
        self._note_idle()

    def _own_table(self, weight: Weight) -> bool:
        """Whether a table of positions is frozen in a model that trains: made by a formula."""
        if weight.tensor.requires_grad or not self._trains:
            return False
        return any(
            weight in slot.leaves.values() and slot.part == "positions" for slot in self.names.mine
        )

    @cached_property
    def _trains(self) -> bool:
        return any(weight.tensor.requires_grad for weight in self.mine)

    def _note_idle(self) -> None:
        """Say of each pair whether a side does not use it."""
        idle = [set(names) for names in self._idle]
        theirs = {w.name for w in self.theirs if idle[1] & set(w.names)}
        for weight in self.mine:
            found = self.found.get(weight.name)
            if found is None:
                continue
            told = ["the candidate's"] if idle[0] & set(weight.names) else []
            if found.arrangement.references and set(found.arrangement.references) <= theirs:
                told.append("the reference's")
            if told:
                said = f"takes no part in {' and '.join(told)} output"
                found.note = "; ".join(filter(None, (found.note, said)))

    def _loaded(self) -> bool:
        """Whether the candidate holds the reference's values, as far as values can tell."""
        telling = [
            weight.name
            for weight in self.mine
            if weight.constant is None
            and not weight.buffer
            and weight.name in self.found
            and self.found[weight.name].method != "given"
        ]
        return bool(telling) and len(self._by_value & set(telling)) >= _LOADED * len(telling)

    def _equal(self, weight: Weight, found: Arrangement) -> bool:
        return same(weight.tensor, found.of(self.tensors), self.dtype)

    # what is left

    def _without(self) -> list[Weight]:
        """Return tensors of the candidate without counterpart, less those where it is no error."""
        errors = []
        for weight in self.mine:
            if weight.name in self.found:
                continue
            why = self._harmless(weight, side=0)
            if why:
                self.left.append(("candidate", weight, why))
            else:
                errors.append(weight)
        return errors

    def _harmless(self, weight: Weight, *, side: int) -> str:
        """Return why a tensor needs no counterpart, or nothing."""
        if self._set_aside(weight, side):
            return "left alone by map="
        if weight.buffer:
            return "a buffer that the module makes itself"
        if set(weight.names) & set(self._idle[side]):
            return "takes no part in the output"
        if weight.neutral:
            return "changes nothing: a gain of ones" if weight.constant else "a bias of zeros"
        return ""

    def _untaken(self) -> list[Uncovered]:
        """Return tensors of the reference that nothing follows from, where that is an error."""
        errors = []
        paired = {name: found.arrangement for name, found in self.found.items()}
        for left in uncovered(self.theirs, paired.values()):
            weight = left.weight
            copied = copied_rows(left, self.dtype) or self._twin(left, paired)
            why = self._harmless(weight, side=1)
            if copied is not None:
                self.copies[weight.name] = copied
                why = f"holds the same values as {' and '.join(copied.references)}"
            elif not why and left.neutral:
                why = "a bias of zeros"
            if why:
                self.left.append(("reference", weight, why))
            else:
                errors.append(left)
        return errors

    def _twin(self, left: Uncovered, paired: Mapping[str, Arrangement]) -> Arrangement | None:
        """Find the tensor that the candidate ties with the counterpart of one left over."""
        roles = {
            slot.role(leaf)
            for slot in self.names.theirs
            for leaf, weight in slot.leaves.items()
            if weight is left.weight
        }
        tied = [
            weight
            for slot in self.names.mine
            for leaf, weight in slot.leaves.items()
            if slot.role(leaf) in roles and len(weight.names) > 1 and weight.name in paired
        ]
        names = {name for weight in tied for name in paired[weight.name].references}
        found = twin(left, (other for other in self.theirs if other.name in names), self.dtype)
        if found is None and tied:
            self.reasons.append(
                f"the candidate ties {' and '.join(tied[0].names)}, the reference holds other"
                f" values in {left.weight.name} than in {' and '.join(names)}"
            )
        return found


def _read(wish: str | Path | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return "auto", "keep" or "copy", and the entries of a map."""
    if isinstance(wish, str) and wish in {"auto", "keep", "copy"}:
        return wish, {}
    if isinstance(wish, str) and not wish.startswith("map=") and not wish.endswith(".json"):
        raise InputError(
            "reading weights=",
            f"there is no {wish!r}",
            'use "auto", "keep", "copy", a dict, the path of a JSON file, or "map=FILE"',
        )
    return "auto", read_map(wish.removeprefix("map=") if isinstance(wish, str) else wish)


def _by_name(weights: tuple[Weight, ...]) -> dict[str, Weight]:
    return {name: weight for weight in weights for name in weight.names}


def _otherwise(found: Arrangement, named: Arrangement | None) -> str:
    """Say where names would have it another way than values."""
    if named is None or found == named:
        return ""
    if found.references != named.references:
        return f"by its name it would be {' + '.join(named.references)}"
    views = {block.view for block in found.blocks} | {found.view}
    others = {block.view for block in named.blocks} | {named.view}
    if views != others:
        return "by value it is transposed; by its name and kind of layer it would not be"
    ours = np.concatenate([block.index() for block in found.blocks])
    told = np.concatenate([block.index() for block in named.blocks])
    return "" if np.array_equal(ours, told) else "by its name its rows would be in another order"
