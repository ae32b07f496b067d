"""Which kinds of values an argument may be, and how anything else is named in a message."""

from __future__ import annotations

import math
import reprlib
from numbers import Integral, Real
from typing import Any, cast

import torch
from torch import Tensor

__all__ = ["described", "is_count", "is_number", "is_part", "is_whole"]

_FEW = 4


def is_count(value: Any, least: int = 1) -> bool:
    """Return whether a value is a whole number from `least` on; True and False are none."""
    if type(value) is bool:
        return False
    return isinstance(value, (Integral, torch.SymInt)) and bool(cast("int", value) >= least)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number; True and False are none."""
    return type(value) is not bool and isinstance(value, Real) and math.isfinite(value)


def is_whole(value: object, axes: int) -> bool:
    """Return whether a value is a tensor of whole numbers with so many axes."""
    if not isinstance(value, Tensor) or value.dim() != axes or value.dtype == torch.bool:
        return False
    return not (value.is_floating_point() or value.is_complex())


def is_part(value: object, *methods: str) -> bool:
    """Return whether a value is an object, not a class, that has these methods."""
    if isinstance(value, type):
        return False
    return all(callable(getattr(value, name, None)) for name in methods)


def described(value: Any) -> str:
    """Return what was given, as a message names it."""
    if isinstance(value, Tensor):
        few = f" {value.tolist()}" if 0 < value.numel() <= _FEW and not value.is_meta else ""
        return f"a tensor {tuple(value.shape)} of {value.dtype}{few}"
    if isinstance(value, type):
        return f"{value.__name__}, a class"
    if isinstance(value, (tuple, list)) and any(isinstance(item, Tensor) for item in value):
        return f"a {type(value).__name__} of {len(value)}, tensors among them"
    return f"the {type(value).__name__} {reprlib.repr(value)}"
