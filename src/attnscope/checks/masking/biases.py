"""Which numbers mean "hidden" where they are added to scores, or stand in their place."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["DEEP", "HIGH", "hides_where", "is_soft_mask", "is_zero_one", "means_to_hide"]


DEEP = -1e3
"""A score, or what is added to it, means "hidden" from here down, whatever else there is.

No ALiBi reaches it, nor does a score of queries and keys of a usual size; the fills in use (-1e4,
-65504, -1e9, the lowest number of a type) lie below, together with the score that joins them.
"""


HIGH = 1e4
"""A fill or a bias from here up makes a key win whatever its score."""


_FEW = 4
"""Different values that a bias made of masks alone has at most (visible, and sums of fills)."""


_NUDGE = -4.0
"""A bias of few values whose lowest lies below this was meant to hide."""


_SLACK = 1e-2
"""How far from 0 a mask may leave what is visible: log(mask + 1e-4) and the like."""


_SHORTEST = 4
"""Keys from which on few different values can be told from distances."""


def hides_where(bias: Tensor) -> Tensor:
    """Return where a bias means "hidden": deep values, else the lower one of few; 0 beside 1."""
    if bool((bias >= HIGH).any()):
        return bias >= HIGH
    if bool((bias <= DEEP).any()):
        return bias <= DEEP
    if is_zero_one(bias):
        return bias == 0
    return bias < bias.max() if means_to_hide(bias) else torch.zeros_like(bias, dtype=torch.bool)


def is_zero_one(bias: Tensor) -> bool:
    """Return whether a tensor holds zeros and ones, both, and nothing else."""
    zero, one = bias == 0, bias == 1
    return bool((zero | one).all()) and bool(zero.any()) and bool(one.any())


def means_to_hide(bias: Tensor) -> bool:
    """Return whether an added bias was meant as a mask: zero where visible, few low values."""
    if bias.dim() == 0 or bias.shape[-1] < _SHORTEST:
        return False
    values = torch.unique(bias)
    if not 1 < len(values) <= _FEW or abs(float(values.max())) > _SLACK:
        return False
    low = values[:-1]
    return bool((low <= _NUDGE).all()) or bool((low == -1.0).all())


def is_soft_mask(bias: Tensor) -> bool:
    """Return whether a bias is 0 here and one number below 0 there."""
    if bias.dim() < 2 or bias.shape[-1] < _SHORTEST or bool((bias > 0).any()):
        return False
    values = torch.unique(bias)
    return len(values) == 2 and float(values[1]) == 0.0
