"""Whether equal values prove anything: two models that were made under one seed share numbers.

Both draw from one stream of random numbers in the order in which they register their tensors, so
that runs of it stand in both, in the same order, under whatever names: the first rows of a fused
projection in what is called `q`, another's `q` in `k`. What was loaded wrongly, as `q` and `k` in
each other's place, keeps no such order; where it does, nothing but the names tells the two apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from attnscope.differ.pairing.arrangement import Arrangement
from attnscope.differ.pairing.names import Proposal
from attnscope.differ.pairing.tensors import Weight

_LONGEST = 1 << 40  # elements of one tensor
_ROUNDING = 1e-5  # relative, of what was drawn in float32
_FIRST = 64  # numbers that are compared
_FEWEST = 8  # fewer prove nothing
_ALIKE = 0.5  # cosine; that of unrelated tensors is near 0


def contradicts(found: Arrangement, named: Proposal | None) -> bool:
    """Whether values have a tensor of another than its name says, or of other rows."""
    if named is None or found == named.arrangement:
        return False
    if set(found.references) != set(named.arrangement.references):
        return True
    return not _turned(found) and not _turned(named.arrangement)


def outspoken(found: Arrangement, named: Proposal) -> bool:
    """Whether names say it without a guess: the parts, and where only rows differ, their order."""
    if set(found.references) != set(named.arrangement.references):
        return named.told
    return named.told and named.ordered


def in_one_order(
    found: Sequence[tuple[Weight, Arrangement]], reference: Mapping[str, Weight]
) -> bool:
    """Whether equal values stand in both models in the same order, as one random stream would.

    Args:
        found: tensors of the candidate in order of registration, and where their values stand.
        reference: the reference's tensors by name.
    """
    if any(_turned(arrangement) for _, arrangement in found):
        return False
    places = [
        reference[block.reference].order * _LONGEST
        + block.index() * block.view.size(block.shape)[1]
        for _, arrangement in found
        for block in arrangement.blocks
        if block.reference
    ]
    return bool(places) and bool((np.diff(np.concatenate(places)) > 0).all())


def unlike(others: Sequence[tuple[Tensor, Tensor]]) -> bool:
    """Whether tensors have nothing in common with what they would be, as drawn anew.

    Args:
        others: tensors that differ, with the reference's values laid out alike.
    """
    return bool(others) and not any(_alike(*two) for two in others)


def drawn_alike(tensor: Tensor, other: Tensor, references: Iterable[tuple[int, ...]]) -> bool:
    """Whether two tensors are the same random numbers, drawn within the bounds of two schemes.

    `nn.Linear` draws within 1/√inputs, Xavier within √(6 / (inputs + outputs)) (Glorot and Bengio
    2010, equation 16), as `nn.MultiheadAttention` does with its packed projection.

    Args:
        tensor: one of the candidate's.
        other: the reference's values, laid out alike.
        references: the shapes of the reference's tensors.
    """
    left, right = (one.detach().cpu().double().reshape(-1) for one in (tensor, other))
    size = float(right.norm())
    if left.shape != right.shape or size == 0:
        return False
    ratio = float(torch.dot(left, right)) / size**2
    if abs(ratio - 1) < _ROUNDING or float((left - ratio * right).norm()) > _ROUNDING * size:
        return False
    theirs = [bound for shape in references for bound in _bounds(shape)]
    return any(
        abs(ratio - mine / bound) < _ROUNDING
        for mine in _bounds(tuple(tensor.shape))
        for bound in theirs
    )


def begins_as_another(tensor: Tensor, own: Tensor, others: Iterable[Tensor]) -> bool:
    """Whether a tensor's first numbers are another's, but for a factor, and not its own.

    As where one stream filled tensors of other sizes in another order: what fits no tensor whole.

    Args:
        tensor: one of the candidate's.
        own: the reference's values, laid out alike.
        others: the reference's tensors.
    """
    if _proportional(tensor, own):
        return False
    return any(_proportional(tensor, other) for other in others)


def _proportional(left: Tensor, right: Tensor) -> bool:
    count = min(left.numel(), right.numel(), _FIRST)
    if count < _FEWEST:
        return False
    one, other = (t.detach().reshape(-1)[:count].cpu().double() for t in (left, right))
    size = float(other.norm())
    ratio = float(torch.dot(one, other)) / size**2 if size else 0.0
    return ratio > 0 and float((one - ratio * other).norm()) <= _ROUNDING * float(one.norm())


def _bounds(shape: tuple[int, ...]) -> tuple[float, ...]:
    """Return the bounds within which a matrix (outputs, inputs) is drawn by default."""
    if len(shape) != 2:
        return ()
    outputs, inputs = shape
    return inputs**-0.5, (6 / (inputs + outputs)) ** 0.5


def _alike(left: Tensor, right: Tensor) -> bool:
    one, other = (tensor.detach().cpu().double().reshape(-1) for tensor in (left, right))
    size = float(one.norm() * other.norm())
    return size > 0 and float(torch.dot(one, other)) > _ALIKE * size


def _turned(arrangement: Arrangement) -> bool:
    views = [arrangement.view, *(block.view for block in arrangement.blocks if block.reference)]
    return not all(view.plain for view in views)
