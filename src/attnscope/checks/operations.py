"""Names of PyTorch's functions by what they do, as a tape writes them.

A tape has one name for all forms of an operation, "x + y" or "torch.add", and ends those that
write in place with "_" (`capture/functions.py`).
"""

from __future__ import annotations

__all__ = [
    "ADDS",
    "COMPARES",
    "CONTRACTIONS",
    "CONVOLUTIONS",
    "DIVIDES",
    "MULTIPLIES",
    "RESHAPES",
    "SUBTRACTS",
]

ADDS = frozenset({"add", "add_"})
SUBTRACTS = frozenset({"sub", "sub_", "rsub"})
MULTIPLIES = frozenset({"mul", "mul_"})
DIVIDES = frozenset({"div", "div_"})
"""By another tensor or a number; `rdiv`, which divides another one, is none of these."""

COMPARES = frozenset("gt lt ge le greater less greater_equal less_equal".split())
RESHAPES = frozenset("view reshape view_as reshape_as unflatten flatten".split())
CONTRACTIONS = frozenset(
    "matmul rmatmul mm bmm baddbmm addmm addbmm einsum tensordot linear mv dot".split()
)
CONVOLUTIONS = frozenset("conv1d conv2d conv3d".split())
