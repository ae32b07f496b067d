"""Whether equal values prove anything: two models that were made under one seed share numbers.

Both draw from one stream of random numbers in the order in which they register their tensors, so
that runs of it stand in both, in the same order, under whatever names: the first rows of a fused
projection in what is called `q`, another's `q` in `k`. What was loaded wrongly, as `q` and `k` in
each other's place, keeps no such order; where it does, nothing but the names tells the two apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from attnscope.differ.pairing.arrangement import Arrangement
from attnscope.differ.pairing.names import Proposal
from attnscope.differ.pairing.tensors import Weight

_LONGEST = 1 << 40  # elements of one tensor
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
        reference[block.reference].order * _LONGEST + block.index() * block.view.size(block.shape)[1]
        for _, arrangement in found
        for block in arrangement.blocks
        if block.reference
    ]
    return bool(places) and bool((np.diff(np.concatenate(places)) > 0).all())


def begins_alike(equal: Sequence[bool], others: Sequence[tuple[Tensor, Tensor]]) -> bool:
    """Whether two models are equal up to some tensor and unlike from there, as under one seed.

    Args:
        equal: of each tensor in order of registration, whether its values are the reference's.
        others: those that are not, with what they would be.
    """
    count = sum(equal)
    return 0 < count < len(equal) and all(equal[:count]) and not any(_alike(*two) for two in others)


def _alike(left: Tensor, right: Tensor) -> bool:
    one, other = (tensor.detach().cpu().double().reshape(-1) for tensor in (left, right))
    size = float(one.norm() * other.norm())
    return size > 0 and float(torch.dot(one, other)) > _ALIKE * size


def _turned(arrangement: Arrangement) -> bool:
    views = [arrangement.view, *(block.view for block in arrangement.blocks if block.reference)]
    return not all(view.plain for view in views)
