"""One adapter for each family of fused attention kernels."""

from attnscope.capture.adapters.sdpa import ScaledDotProductAttention
from attnscope.capture.kernel import Adapter

__all__ = ["ADAPTERS"]

ADAPTERS: tuple[Adapter, ...] = (ScaledDotProductAttention(),)
"""All adapters; each names the functions that it reads."""
