"""Names for scales: 0.125 is "1/√64"."""

from __future__ import annotations

import math

__all__ = ["is_known_scale", "name_of_scale"]

_SAME = 1e-3


def name_of_scale(scale: float, head_dim: int, heads: int) -> str:
    """Return a scale with the name of the width that it follows from, where there is one."""
    name = _name(scale, head_dim, heads)
    return f"{scale:.6g}" if name is None else f"{scale:.6g} ({name})"


def is_known_scale(scale: float, head_dim: int, heads: int) -> bool:
    """Return whether a scale follows from a width."""
    return _name(scale, head_dim, heads) is not None


def _name(scale: float, head_dim: int, heads: int) -> str | None:
    width = head_dim * heads
    names = {
        f"1/√head_dim = 1/√{head_dim}": head_dim**-0.5,
        "no scale at all": 1.0,
        f"√head_dim = √{head_dim}": head_dim**0.5,
        f"1/head_dim = 1/{head_dim}": 1.0 / head_dim,
        f"1/√(heads·head_dim) = 1/√{width}": width**-0.5,
        f"1/(heads·head_dim) = 1/{width}": 1.0 / width,
        f"head_dim^(-1/4) = {head_dim}^(-1/4)": head_dim**-0.25,
    }
    same = (name for name, value in names.items() if math.isclose(scale, value, rel_tol=_SAME))
    return next(same, None)
