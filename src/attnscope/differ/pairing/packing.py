"""Fused projections: in which rows of one tensor q, k and v (or gate and up) lie.

====================  =============================================  ==========================
packing               rows                                           in
====================  =============================================  ==========================
flat                  all of q, all of k, all of v                   nn.MultiheadAttention, GPT-2
per head              q, k, v of head 0, then of head 1 ...          GPT-NeoX, BLOOM, Persimmon
per group             the q heads, k and v of kv head 0, then 1 ...  Falcon, InternLM2
per shard             q, v, k of each of 4 shards                    CodeGen
====================  =============================================  ==========================

One formula holds for all: `groups` times the parts in `order`, each with its share of rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from attnscope.differ.pairing.arrangement import View
from attnscope.differ.pairing.geometry import Geometry
from attnscope.differ.pairing.tensors import Weight

_PER_GROUP = re.compile(r"gptneox|bloom|falcon|persimmon|internlm2|gptbigcode|fuyu")
_FLAT_WHEN_SHARED = re.compile(r"gptbigcode")
_SHARDS = 4  # CodeGen's projections come from 4 devices


@dataclass(frozen=True, slots=True)
class Packing:
    """How parts lie in the rows of a fused tensor: `groups` times the parts in `order`."""

    groups: int
    order: tuple[str, ...]

    def rows(self, part: str, sizes: Mapping[str, int]) -> np.ndarray:
        """Return the rows of one part, in the order that it has when it stands alone.

        Args:
            part: one of `order`.
            sizes: the rows of every part.
        """
        shares = [sizes[name] // self.groups for name in self.order]
        before = sum(shares[: self.order.index(part)])
        own = shares[self.order.index(part)]
        group = np.arange(self.groups)[:, None] * sum(shares)
        found: np.ndarray = (group + before + np.arange(own)[None, :]).reshape(-1)
        return found

    def __str__(self) -> str:
        """Return the packing in words."""
        names = ", ".join(self.order)
        return f"{names} in {self.groups} groups" if self.groups > 1 else f"all {names} in turn"


FLAT = Packing(1, ("q", "k", "v"))


def known_packing(kind: type, geometry: Geometry) -> Packing | None:
    """Return the packing that a class of Hugging Face's is known to have, or None.

    Args:
        kind: a class around the fused projection. One that people wrote themselves may pack as
            it likes, whatever its name.
        geometry: its heads.
    """
    if not kind.__module__.startswith("transformers") and "modeling_" not in kind.__module__:
        return None
    name = kind.__name__.lower().replace("_", "")
    if "codegen" in name:
        return Packing(_SHARDS, ("q", "v", "k"))
    if not _PER_GROUP.search(name) or geometry.kv_heads is None:
        return None
    if _FLAT_WHEN_SHARED.search(name) and geometry.kv_heads == 1:
        return FLAT
    return Packing(geometry.kv_heads, ("q", "k", "v"))


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one part in order: row `row[i]` of `sources[source[i]]`."""

    sources: tuple[tuple[Weight, View], ...]
    source: np.ndarray
    row: np.ndarray

    @classmethod
    def of(cls, weight: Weight, view: View, row: np.ndarray) -> Rows:
        """Return rows of one tensor."""
        return cls(((weight, view),), np.zeros(len(row), dtype=np.int64), row)

    def followed_by(self, other: Rows) -> Rows:
        """Return these rows and then others."""
        return Rows(
            (*self.sources, *other.sources),
            np.concatenate([self.source, other.source + len(self.sources)]),
            np.concatenate([self.row, other.row]),
        )

    def taken(self, index: np.ndarray) -> Rows:
        """Return some of the rows, in another order."""
        return Rows(self.sources, self.source[index], self.row[index])


def copied_per_group(rows: int, wanted: int, head_dim: int | None) -> np.ndarray | None:
    """Return which row each row of an expanded (or reduced) k or v is; None where it can't be.

    Each kv head stands for its whole group, next to one another (`repeat_interleave`), as in
    grouped-query attention (Ainslie et al. 2023, section 2.2).
    """
    if (
        not head_dim
        or rows % head_dim
        or wanted % head_dim
        or max(rows, wanted) % min(rows, wanted)
    ):
        return None
    head = np.arange(wanted // head_dim)
    if wanted >= rows:
        head //= wanted // rows
    else:
        head *= rows // wanted
    found: np.ndarray = (head[:, None] * head_dim + np.arange(head_dim)[None, :]).reshape(-1)
    return found
