"""Sparse patterns by place: blocks that a table chooses, and tokens that all see.

They are rules as those of `by_distance`: a mask, and the same as a list of keys for each position.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Int64
from numpy.typing import ArrayLike

from attnscope.errors import InputError
from attnscope.reference.given import array, count, flag, whole
from attnscope.reference.masks.alignment import Alignment
from attnscope.reference.patterns.by_distance import DOING, Grid, Seen, grid, within

__all__ = ["BlockSparse", "LocalGlobal"]


@dataclass(frozen=True, slots=True, eq=False)
class BlockSparse:
    """Blocks of queries see whole blocks of keys, as a table says.

        may attend:  layout[⌊position / block⌋, ⌊key / block⌋]   (and key ≤ position, if causal)

    Where heads differ (BigBird's random blocks), each head has a pattern of its own.

    Args:
        layout: (blocks of queries, blocks of keys), True = may attend.
        block: positions in a block.
        causal: whether later keys of a visible block are hidden.

    Source: Gray et al. 2017, "GPU Kernels for Block-Sparse Weights"; Zaheer et al. 2020, "Big
        Bird", appendix D, makes windows, globals and random keys of such blocks.

    Elsewhere: `BlockMask` of FlexAttention with full blocks, `layout` of DeepSpeed and triton.

    Example:
        >>> BlockSparse([[True, False], [True, True]], block=2).mask(4, 4).astype(int)
        array([[1, 1, 0, 0],
               [1, 1, 0, 0],
               [1, 1, 1, 1],
               [1, 1, 1, 1]])
    """

    layout: ArrayLike
    block: int
    causal: bool = False
    _blocks: Bool[np.ndarray, "query_blocks key_blocks"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        count(DOING, "block", self.block)
        flag(DOING, "causal", self.causal)
        found = array(DOING, "the layout", self.layout)
        if found.dtype.kind != "b" or found.ndim != len(("queries", "keys")):
            raise InputError(
                DOING,
                f"a layout of type {found.dtype} and shape {found.shape}",
                "give booleans (blocks of queries, blocks of keys), True = may attend",
            )
        object.__setattr__(self, "_blocks", found)

    def mask(self, queries: int, keys: int, alignment: Alignment | None = None) -> Grid:
        """Return the mask (queries, keys), True = may attend."""
        position, key = grid(queries, keys, alignment)
        for end in {*position.flat[:1], *position.flat[-1:]}:
            self._check(int(end), keys)
        seen = self._blocks[position // self.block, key // self.block]
        return np.asarray(seen & (key <= position) if self.causal else seen)

    def keys_of(self, position: int, keys: int) -> Seen:
        """Return the keys of the visible blocks, one block after the other."""
        self._check(position, keys)
        starts = self.block * np.flatnonzero(self._blocks[position // self.block])
        seen = (starts[:, None] + np.arange(self.block)).ravel()
        return within(seen, min(keys, position + 1) if self.causal else keys)

    def _check(self, position: int, keys: int) -> None:
        rows, columns = (self.block * size for size in self._blocks.shape)
        if not 0 <= position < rows or keys > columns:
            raise InputError(
                DOING,
                f"the layout covers positions 0 to {rows - 1} and {columns} keys, and there are "
                f"{keys} keys and a query at position {position}",
                "give a larger layout or larger blocks",
            )


@dataclass(frozen=True, slots=True)
class LocalGlobal:
    """A window for all, and global positions that see all keys and that all queries see.

        may attend:  -before ≤ key - position ≤ after
                or:  key is global, or position is global        (and key ≤ position, if causal)

    Args:
        before: earlier keys in the window, in tokens, without the query's own.
        after: later keys in the window.
        globals_: the global positions.
        causal: whether later keys are hidden from local and global queries alike.

    Source: Beltagy et al. 2020, section 3.1; Ainslie et al. 2020, "ETC"; Zaheer et al. 2020. With
        causal=True and the first tokens global it is Xiao et al. 2024, "StreamingLLM".

    Elsewhere: `global_attention_mask` of Longformer (which has projections of its own for them).

    Example:
        >>> LocalGlobal(1, 1, globals_=(0,)).mask(4, 4).astype(int)
        array([[1, 1, 1, 1],
               [1, 1, 1, 0],
               [1, 1, 1, 1],
               [1, 0, 1, 1]])
    """

    before: int
    after: int
    globals_: tuple[int, ...]
    causal: bool = False

    def __post_init__(self) -> None:
        count(DOING, "before", self.before, least=0)
        count(DOING, "after", self.after, least=0)
        flag(DOING, "causal", self.causal)
        for one in self._listed():
            count(DOING, "a global position", int(one), least=0)

    def mask(self, queries: int, keys: int, alignment: Alignment | None = None) -> Grid:
        """Return the mask (queries, keys), True = may attend."""
        position, key = grid(queries, keys, alignment)
        near = (position - self.before <= key) & (key <= position + self.after)
        seen = near | np.isin(key, self.globals_) | np.isin(position, self.globals_)
        return np.asarray(seen & (key <= position) if self.causal else seen)

    def _listed(self) -> Int64[np.ndarray, " globals"]:
        """Return the global positions as an array; none for an empty tuple."""
        found = array(DOING, "globals_", self.globals_)
        return whole(DOING, "globals_", found if found.size else np.arange(0), axes=1)

    def keys_of(self, position: int, keys: int) -> Seen:
        """Return all keys of a global position; of another its window and the globals."""
        stop = min(keys, position + 1) if self.causal else keys
        if position in self.globals_:
            return np.arange(stop)
        near = np.arange(position - self.before, position + self.after + 1)
        every = np.concatenate([near, np.array(self.globals_, dtype=np.int64)])
        return within(np.unique(every), stop)
