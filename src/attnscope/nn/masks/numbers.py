"""What counts as whole numbers where a mask takes them, and how anything else is named."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["described", "is_whole"]


def is_whole(value: object, axes: int) -> bool:
    """Return whether a value is a tensor of whole numbers with so many axes."""
    if not isinstance(value, Tensor) or value.dim() != axes or value.dtype == torch.bool:
        return False
    return not (value.is_floating_point() or value.is_complex())


def described(value: object) -> str:
    """Return what was given, as a message names it."""
    if isinstance(value, Tensor):
        few = f" {value.tolist()}" if 0 < value.numel() <= 4 else ""
        return f"a tensor {tuple(value.shape)} of {value.dtype}{few}"
    return f"the {type(value).__name__} {value!r}"
