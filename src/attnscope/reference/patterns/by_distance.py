"""Sparse patterns: which keys a query looks at, as a rule that is both a mask and a list.

`mask` is the boolean matrix, True = may attend, built in one expression from the rule. `keys_of`
lists the visible keys of one position without a matrix, which is what lets
`pattern_attention` touch nothing else. The two are written apart, so that each tests the other.
Here are the patterns that follow from distances; `by_place` has those by place.

Positions are counted within the keys. `alignment` says where the queries lie among them, as in
`causal`; it must be named where queries and keys differ in number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int64

from attnscope.errors import InputError
from attnscope.reference.given import choice, count
from attnscope.reference.masks.alignment import Alignment, first_place

__all__ = [
    "DOING",
    "Fixed",
    "Grid",
    "Pattern",
    "Seen",
    "SlidingWindow",
    "Strided",
    "grid",
    "within",
]

Seen: TypeAlias = Int64[np.ndarray, " seen"]
Grid: TypeAlias = Bool[np.ndarray, "queries keys"]

DOING = "making a sparse pattern"


@runtime_checkable
class Pattern(Protocol):
    """A rule that says which keys each position may attend to."""

    def mask(self, queries: int, keys: int, alignment: Alignment | None = None) -> Grid:
        """Return the mask (queries, keys), True = may attend."""

    def keys_of(self, position: int, keys: int) -> Seen:
        """Return the keys that the query at `position` may attend to, rising, without a mask."""


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Each query sees the keys around it: `before` earlier ones, itself, `after` later ones.

        may attend:  -before · dilation ≤ key - position ≤ after · dilation,
                     and (key - position) mod dilation = 0

    Distances in tokens. A causal window of W keys, the query's own included, has before = W - 1.

    Source: Beltagy et al. 2020, "Longformer", section 3.1 (with dilation); Child et al. 2019.

    Elsewhere: `window_size=(before, after)` of flash-attn; `sliding_window=W` of Mistral and
    Gemma is (W - 1, 0); `attention_window=w` of Longformer is (w/2, w/2).

    Example:
        >>> SlidingWindow(1).mask(3, 3).astype(int)
        array([[1, 0, 0],
               [1, 1, 0],
               [0, 1, 1]])
        >>> SlidingWindow(1, 1, dilation=2).keys_of(3, 8)
        array([1, 3, 5])
    """

    before: int
    after: int = 0
    dilation: int = 1

    def __post_init__(self) -> None:
        count(DOING, "before", self.before, least=0)
        count(DOING, "after", self.after, least=0)
        count(DOING, "dilation", self.dilation)

    def mask(self, queries: int, keys: int, alignment: Alignment | None = None) -> Grid:
        """Return the mask (queries, keys), True = may attend."""
        position, key = grid(queries, keys, alignment)
        away = key - position
        reached = (-self.before * self.dilation <= away) & (away <= self.after * self.dilation)
        return np.asarray(reached & (away % self.dilation == 0))

    def keys_of(self, position: int, keys: int) -> Seen:
        """Return the keys in steps of the dilation that lie within the sequence."""
        steps = np.arange(-self.before, self.after + 1)
        return within(position + steps * self.dilation, keys)


@dataclass(frozen=True, slots=True)
class Strided:
    """Each query sees the last `stride` keys, its own included, and every stride-th before it.

        may attend:  0 ≤ position - key < stride                        (part "local")
                or:  key ≤ position and (position - key) mod stride = 0 (part "column")

    Source: Child et al. 2019, "Generating Long Sequences with Sparse Transformers", section 4.3:
        A(1) is "local", A(2) is "column"; their heads use one each, or both together.

    Elsewhere: "strided" of DeepSpeed and blocksparse. GPT-3's sparse layers are local alone.

    Example:
        >>> Strided(2).mask(4, 4).astype(int)
        array([[1, 0, 0, 0],
               [1, 1, 0, 0],
               [1, 1, 1, 0],
               [0, 1, 1, 1]])
    """

    stride: int
    part: Literal["both", "local", "column"] = "both"

    def __post_init__(self) -> None:
        count(DOING, "stride", self.stride)
        choice(DOING, "the part", self.part, ("both", "local", "column"))

    def mask(self, queries: int, keys: int, alignment: Alignment | None = None) -> Grid:
        """Return the mask (queries, keys), True = may attend."""
        position, key = grid(queries, keys, alignment)
        back = position - key
        local = (back >= 0) & (back < self.stride)
        column = (back >= 0) & (back % self.stride == 0)
        return np.asarray({"local": local, "column": column, "both": local | column}[self.part])

    def keys_of(self, position: int, keys: int) -> Seen:
        """Return the near keys, and those in steps of the stride back to the start."""
        local = np.arange(position - self.stride + 1, position + 1)
        column = np.arange(position % self.stride, position + 1, self.stride)
        parts = {"local": [local], "column": [column], "both": [local, column]}[self.part]
        return within(np.unique(np.concatenate(parts)), keys)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Each query sees its own block so far, and the last `summary` keys of all blocks so far.

        may attend:  key ≤ position and ⌊key / stride⌋ = ⌊position / stride⌋
                or:  key ≤ position and key mod stride ≥ stride - summary

    Source: Child et al. 2019, section 4.3, "fixed" attention (there l and c).

    Elsewhere: `FixedSparsityConfig` of DeepSpeed.

    Example:
        >>> Fixed(2, summary=1).mask(4, 4).astype(int)
        array([[1, 0, 0, 0],
               [1, 1, 0, 0],
               [0, 1, 1, 0],
               [0, 1, 1, 1]])
    """

    stride: int
    summary: int = 1

    def __post_init__(self) -> None:
        count(DOING, "stride", self.stride)
        if count(DOING, "summary", self.summary) > self.stride:
            raise InputError(
                DOING,
                f"summary is {self.summary} of a stride of {self.stride}",
                "give at most the stride",
            )

    def mask(self, queries: int, keys: int, alignment: Alignment | None = None) -> Grid:
        """Return the mask (queries, keys), True = may attend."""
        position, key = grid(queries, keys, alignment)
        own = key // self.stride == position // self.stride
        summaries = key % self.stride >= self.stride - self.summary
        return np.asarray((key <= position) & (own | summaries))

    def keys_of(self, position: int, keys: int) -> Seen:
        """Return the own block up to the position, after the ends of the blocks before it."""
        start = position - position % self.stride
        ends = np.arange(self.stride, max(start, 0) + 1, self.stride)
        before = (ends[:, None] - np.arange(self.summary, 0, -1)).ravel()
        return within(np.concatenate([before, np.arange(start, position + 1)]), keys)


def grid(
    queries: int, keys: int, alignment: Alignment | None
) -> tuple[Int64[np.ndarray, "queries 1"], Int64[np.ndarray, "1 keys"]]:
    """Return the positions of the queries as a column and of the keys as a row."""
    start = first_place(queries, keys, alignment)
    return np.arange(start, start + queries)[:, None], np.arange(keys)[None, :]


def within(listed: Int64[np.ndarray, " listed"], keys: int) -> Seen:
    """Return those of the listed positions that are keys."""
    return np.asarray(listed[(listed >= 0) & (listed < keys)])
