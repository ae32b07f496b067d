"""What two ways to compute the same, that give different results, are said to be."""

from __future__ import annotations

from dataclasses import dataclass

from attnscope.calls.call import Call
from attnscope.calls.source import Source

__all__ = ["APART", "Disagreement"]


APART = 1e-4
"""Relative difference from which two ways are called different, where noise says nothing else."""


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two ways that give different results.

    switch: what was changed; largest: how far an output moves; noise: what is rounding; reason:
    how the recipes differ ("" where they don't); call, source: of the way that ran first.
    explained: what the other way does to the same q, k and v ("" where that is not known).
    in_blocks: whether the own way takes the keys in blocks.
    """

    switch: str
    largest: float
    noise: float
    reason: str
    call: Call | None
    source: Source | None
    explained: str = ""
    in_blocks: bool = False
