"""One adapter for each family of fused attention kernels."""

from attnscope.capture.adapters.encoder_layer import EncoderLayer
from attnscope.capture.adapters.flash_attn import FlashAttention
from attnscope.capture.adapters.flex import FlexAttention
from attnscope.capture.adapters.native_mha import NativeMultiheadAttention
from attnscope.capture.adapters.sdpa import ScaledDotProductAttention
from attnscope.capture.adapters.xformers import MemoryEfficientAttention
from attnscope.capture.kernel import Adapter

__all__ = ["ADAPTERS", "REBOUND"]

REBOUND: tuple[Adapter, ...] = (FlashAttention(), MemoryEfficientAttention())
"""Adapters of plain Python functions, which have to be bound anew to be seen."""

ADAPTERS: tuple[Adapter, ...] = (
    ScaledDotProductAttention(),
    NativeMultiheadAttention(),
    EncoderLayer(),
    FlexAttention(),
    *REBOUND,
)
"""All adapters; each names the functions that it reads."""
