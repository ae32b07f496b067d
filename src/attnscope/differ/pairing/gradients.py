"""Gradients of paired tensors, brought into one layout so that they can be compared.

Where each element of the candidate is one element of the reference and the reverse, the
reference's gradient is laid out as the candidate's tensor. Where one element stands on a side
several times (tied tensors that the other side holds apart, key/value heads copied per group),
the gradients of all its places are added, as the chain rule does (dL/dw = sum of dL/d(each use)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnscope.differ.pairing.arrangement import Arrangement


@dataclass(frozen=True, eq=False, slots=True)
class GradientPair:
    """Tensors whose gradients can be compared.

    candidate, reference: the names of the tensors that take part on either side;
    apart: whether each element stands once on each side, so that nothing has to be added.
    """

    candidate: tuple[str, ...]
    reference: tuple[str, ...]
    apart: bool
    arrangements: tuple[Arrangement, ...]
    shapes: Mapping[str, tuple[int, ...]]
    copies: tuple[tuple[str, Arrangement], ...] = ()

    @property
    def name(self) -> str:
        """The names of the candidate's tensors in one line."""
        return " + ".join(self.candidate)

    def of(
        self, candidate: Mapping[str, Tensor | None], reference: Mapping[str, Tensor | None]
    ) -> tuple[Tensor, Tensor] | None:
        """Return both sides' gradients in one layout, or None where neither side has any.

        Args:
            candidate: gradients by name; None or absent where a tensor took no part: zeros.
            reference: the same of the reference.
        """
        ours, theirs = _present(self.candidate, candidate), _present(self.reference, reference)
        if not ours and not theirs:
            return None
        like = next(iter({**theirs, **ours}.values()))
        if not ours:
            shape = self.arrangements[0].shape
            ours = {self.candidate[0]: like.new_zeros(shape)}
        if not theirs:
            theirs = {self.reference[0]: like.new_zeros(self.shapes[self.reference[0]])}
        if not self.apart:
            return self._added(ours, theirs)
        (name,) = self.candidate
        for other in self.reference:
            theirs.setdefault(other, like.new_zeros(self.shapes[other]))
        return ours[name], self.arrangements[0].of(theirs)

    def _added(
        self, ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Add both sides' gradients per element of the reference."""
        numbers = self._numbers()
        total = sum(number.numel() for number in numbers.values()) + 1
        dtype = next(iter(theirs.values())).dtype
        mine, reference = torch.zeros(total, dtype=dtype), torch.zeros(total, dtype=dtype)
        used = torch.zeros(total, dtype=torch.bool)
        for name, arrangement in zip(self.candidate, self.arrangements, strict=True):
            at = arrangement.of(numbers).reshape(-1)
            used[at] = True
            if name in ours:
                mine.index_add_(0, at, ours[name].detach().to("cpu", dtype).reshape(-1))
        for name, number in numbers.items():
            if name in theirs:
                gradient = theirs[name].detach().to("cpu", dtype)
                reference.index_add_(0, number.reshape(-1), gradient.reshape(-1))
        used[0] = False  # rows of one value, which are nobody's
        return mine[used], reference[used]

    def _numbers(self) -> dict[str, Tensor]:
        """Return a number for each element of the reference, copies sharing one."""
        numbers: dict[str, Tensor] = {}
        start = 1
        for name in self.reference:
            shape = self.shapes[name]
            count = int(torch.Size(shape).numel())
            numbers[name] = torch.arange(start, start + count).reshape(shape)
            start += count
        for name, arrangement in self.copies:
            told = arrangement.of(numbers)
            numbers[name] = torch.where(told > 0, told, numbers[name])
        return numbers


def gradient_pairs(
    arrangements: Mapping[str, Arrangement],
    shapes: Mapping[str, tuple[int, ...]],
    copies: Mapping[str, Arrangement],
) -> tuple[GradientPair, ...]:
    """Return the pairs whose gradients can be compared, those that share elements as one.

    Args:
        arrangements: how each tensor of the candidate is made, by name.
        shapes: of the reference's tensors.
        copies: tensors of the reference that hold the values of others, by name.
    """
    groups = _groups(arrangements, shapes, copies)
    pairs = []
    for names in groups:
        used = [arrangements[name] for name in names]
        references = dict.fromkeys(name for one in used for name in one.references)
        joined = [name for name in copies if {name, *copies[name].references} & set(references)]
        for name in joined:
            references |= dict.fromkeys((name, *copies[name].references))
        pairs.append(
            GradientPair(
                candidate=tuple(names),
                reference=tuple(references),
                apart=len(names) == 1 and not joined and not _repeats(used[0]),
                arrangements=tuple(used),
                shapes={name: shapes[name] for name in references},
                copies=tuple((name, copies[name]) for name in joined),
            )
        )
    return tuple(pairs)


def _groups(
    arrangements: Mapping[str, Arrangement],
    shapes: Mapping[str, tuple[int, ...]],
    copies: Mapping[str, Arrangement],
) -> list[list[str]]:
    """Return names whose tensors share elements of the reference."""
    views: dict[str, set[object]] = {}
    for arrangement in arrangements.values():
        for block in arrangement.blocks:
            views.setdefault(block.reference, set()).add(block.view)
    entire = {name for name, seen in views.items() if len(seen) > 1}
    for name, arrangement in copies.items():
        entire |= {name, *arrangement.references}
    group_of = {name: {name: None} for name in arrangements}  # dicts, to keep the order
    first: dict[str, np.ndarray] = {}
    number = list(arrangements)
    for me, (name, arrangement) in enumerate(arrangements.items()):
        for block in arrangement.blocks:
            if not block.reference:
                continue
            height = block.view.size(shapes[block.reference])[0]
            known = first.setdefault(block.reference, np.full(height, -1))
            rows = slice(None) if block.reference in entire else block.index()
            for other in np.unique(known[rows]):
                if other >= 0 and group_of[number[other]] is not group_of[name]:
                    joined = group_of[number[other]] | group_of[name]
                    group_of |= dict.fromkeys(joined, joined)
            known[rows] = me
    unique = {id(group): group for group in group_of.values()}
    return [list(group) for group in unique.values()]


def _repeats(arrangement: Arrangement) -> bool:
    """Whether rows of the reference stand in the candidate's tensor more than once."""
    seen: dict[str, list[int]] = {}
    views: dict[str, set[object]] = {}
    for block in arrangement.blocks:
        if block.reference:
            seen.setdefault(block.reference, []).extend(int(row) for row in block.index())
            views.setdefault(block.reference, set()).add(block.view)
    return any(len(set(rows)) < len(rows) for rows in seen.values()) or any(
        len(found) > 1 for found in views.values()
    )


def _present(names: Sequence[str], gradients: Mapping[str, Tensor | None]) -> dict[str, Tensor]:
    """Return the gradients that exist."""
    return {name: gradient for name in names if (gradient := gradients.get(name)) is not None}
