"""Which tables are cosine and sine of the same angles, column by column or in another order."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["in_order_of", "is_one_circle", "is_unit"]

_LEAST = 0.1
"""Length of cosine and sine below which they are none."""

_UNIT = 16.0
"""Roundoffs of a table's type within which cos² + sin² is 1."""

_ROUNDING = 1e-5


def is_unit(sizes: Tensor, grain: float) -> bool:
    """Return whether all lengths of (cosine, sine) are one and the same, within rounding."""
    mean = float(sizes.mean())
    close = max(_UNIT * grain, _ROUNDING)
    return mean > _LEAST and float((sizes - mean).abs().max()) <= close * mean


def is_one_circle(one: Tensor, other: Tensor, grain: float) -> bool:
    """Return whether cos² + sin² is the same number everywhere."""
    if one.shape != other.shape:
        return False
    return is_unit((one.double().square() + other.double().square()).sqrt(), grain)


def in_order_of(one: Tensor, other: Tensor, grain: float) -> Tensor | None:
    """Return the second table with its columns in the order that makes them partners of the first.

    None: they are no cosines and sines of the same angles in any order.
    """
    if one.shape != other.shape or one.dim() == 0:
        return None
    close = max(_UNIT * grain, _ROUNDING)
    ours, theirs = (t.double().reshape(-1, t.shape[-1]) for t in (one, other))
    gaps = (ours.square().T[:, None] + theirs.square().T[None] - 1.0).abs().amax(-1)
    fits = gaps <= close
    if not bool(fits.any(0).all() and fits.any(1).all()):
        return None
    return other.index_select(-1, torch.argmin(gaps, dim=1))
