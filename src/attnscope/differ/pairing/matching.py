"""One way of pairing: the user's map, values, names; then what is copied and what is left over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import torch

from attnscope.differ.pairing.arrangement import Arrangement, Block, flat, whole
from attnscope.differ.pairing.asked import Asked
from attnscope.differ.pairing.chance import begins_as_another, drawn_alike, unlike
from attnscope.differ.pairing.coverage import Uncovered, copied_rows, twin, uncovered
from attnscope.differ.pairing.fitting import canonical_views
from attnscope.differ.pairing.names import Method
from attnscope.differ.pairing.neutral import multiplied_by_zeros
from attnscope.differ.pairing.tensors import Weight
from attnscope.differ.pairing.values import rounded, same
from attnscope.differ.pairing.wording import in_words

Proof: TypeAlias = Literal["equal", "copied", "differs"]
_LOADED = 0.5  # of the tensors that can prove anything hold the reference's values: it was loaded
_MOSTLY = 0.9  # of them, where the others are unlike the reference's


@dataclass(frozen=True, slots=True)
class Doubt:
    """Values that are not believed: what tensors they would make, and why that is none.

    seeded: all equal values are chance, as of two models that were made under one seed.
    """

    arrangements: Mapping[str, Arrangement] = field(default_factory=dict)
    seeded: bool = False

    def said(self, name: str) -> str:
        """Return what deserves a look at one tensor, or nothing."""
        if name not in self.arrangements:
            return ""
        found = self.arrangements[name]
        first, *more = found.references
        part = in_words(found)
        told = f"holds the values of {first}"
        if more:
            told += f" and {len(more)} more" if len(more) > 1 else f" and {more[0]}"
        elif part != "whole":
            told += f", {part}"
        why = "as under one seed" if self.seeded else "which leaves others without a counterpart"
        return f"{told}, {why}; paired by its name"


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
        asked: the tensors of both models, their names, and what the user wants.
        doubt: the values that are not believed.
    """

    def __init__(self, asked: Asked, doubt: Doubt | None = None) -> None:
        self.asked, self.doubt = asked, doubt or Doubt()
        self.mine, self.theirs, self.tensors = asked.mine, asked.theirs, asked.tensors
        self.dtype, self.given, self.names = asked.dtype, asked.given, asked.names
        self.wish, self._idle = asked.wish, asked.idle
        self.found: dict[str, Found] = {}
        self.left: list[tuple[str, Weight, str]] = []
        self.copies: dict[str, Arrangement] = {}
        self.reasons: list[str] = []
        self.by_value: set[str] = set()
        for weight in self.mine:
            self._find(weight)
        self._biases_beside()
        self._constants_in_order()
        self._prove()
        self.unpaired: tuple[list[Weight], list[Uncovered]] = (self._without(), self._untaken())

    @property
    def complete(self) -> bool:
        """Whether everything has a counterpart that should have one."""
        return not any(self.unpaired)

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
                found = self.asked.index.find(weight, near)
            if found is not None and self._believed(weight, named=proposal is not None):
                note = _otherwise(found, proposal.arrangement if proposal else None)
                self.by_value.add(name)
                if self.wish != "copy" or proposal is None:
                    why = "its values are there"
                    self.found[name] = Found(found, "value", why, note=note)
                    return
        if proposal is not None and (not weight.buffer or self._pairs_by_name_alone(weight)):
            self.found[name] = Found(proposal.arrangement, proposal.method, proposal.why)

    def _believed(self, weight: Weight, *, named: bool) -> bool:
        """Whether the values of a tensor say what it is."""
        chance = self.doubt.seeded and named and not weight.buffer
        return not chance and weight.name not in self.doubt.arrangements

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
        self._constants(by_kind=True)
        self._constants(by_kind=False)

    def _constants(self, *, by_kind: bool) -> None:
        """Pair constants where both sides have as many, of norms apart from others or not."""
        taken = {name for found in self.found.values() for name in found.arrangement.references}
        groups: dict[object, tuple[list[Weight], list[Weight]]] = {}
        for at, (weights, done) in enumerate(((self.mine, self.found), (self.theirs, taken))):
            for weight in weights:
                if weight.name in done or weight.constant is None or weight.buffer:
                    continue
                if not self._set_aside(weight, at):
                    key = (weight.shape, weight.constant, by_kind and weight.kind == "norm")
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
            if value is not None and self._equal(weight, found.arrangement):
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
            elif weight.computed and found.proof == "copied":
                found.note = "set through the inverse of its parametrization"
            elif self.doubt.said(weight.name):
                found.note = self.doubt.said(weight.name)
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
            weight
            for weight in self.mine
            if weight.constant is None
            and not weight.buffer
            and weight.name in self.found
            and self.found[weight.name].method != "given"
        ]
        equal = [weight.name in self.by_value for weight in telling]
        if self.doubt.seeded or not telling or sum(equal) < _LOADED * len(telling):
            return False
        others = [
            (weight.tensor, found.of(self.tensors), [b.shape for b in found.blocks if b.reference])
            for weight, same_values in zip(telling, equal, strict=True)
            if not same_values
            and weight.name not in self.doubt.arrangements
            and (found := self.found[weight.name].arrangement).references
        ]
        every = [weight.tensor for weight in self.theirs if weight.constant is None]
        if any(
            drawn_alike(mine, value, shapes) or begins_as_another(mine, value, every)
            for mine, value, shapes in others
        ):
            return False
        mostly = sum(equal) >= _MOSTLY * len(telling)
        return mostly or not unlike([(mine, value) for mine, value, _ in others])

    def _equal(self, weight: Weight, found: Arrangement) -> bool:
        value = found.of(self.tensors)
        if weight.computed or any(name in self.asked.computed for name in found.references):
            return rounded(weight.tensor, value, self.dtype)
        return same(weight.tensor, value, self.dtype)

    # what is left

    def _without(self) -> list[Weight]:
        """Return tensors of the candidate without counterpart, less those where it is no error."""
        errors = []
        missing = [weight for weight in self.mine if weight.name not in self.found]
        zeros = multiplied_by_zeros(missing)
        for weight in missing:
            why = zeros.get(weight.name) or self._harmless(weight, side=0)
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
        missing = uncovered(self.theirs, paired.values())
        zeros = multiplied_by_zeros(left.weight for left in missing if left.everything)
        for left in missing:
            weight = left.weight
            copied = copied_rows(left, self.dtype) or self._twin(left, paired)
            why = zeros.get(weight.name) or self._harmless(weight, side=1)
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
