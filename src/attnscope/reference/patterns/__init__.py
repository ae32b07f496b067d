"""Sparse patterns, as masks and as lists of keys, and attention over the listed keys alone."""

from __future__ import annotations

from attnscope.reference.patterns.attending import (
    PatternGradients,
    pairs_of,
    pattern_attention,
    pattern_attention_backward,
)
from attnscope.reference.patterns.by_distance import Fixed, Pattern, SlidingWindow, Strided
from attnscope.reference.patterns.by_place import BlockSparse, LocalGlobal

__all__ = [
    "BlockSparse",
    "Fixed",
    "LocalGlobal",
    "Pattern",
    "PatternGradients",
    "SlidingWindow",
    "Strided",
    "pairs_of",
    "pattern_attention",
    "pattern_attention_backward",
]
