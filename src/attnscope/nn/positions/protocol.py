"""The two places where attention can learn of positions; the base of all that do."""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Int
from torch import Tensor, nn

from attnscope.axes import Bias, Key, Query

__all__ = ["Places", "Positions", "distances"]

Places: TypeAlias = Int[Tensor, " places"] | Int[Tensor, "batch places"]
"""Positions of tokens: the same for all samples, or of each."""


class Positions(nn.Module):
    """Positions that attention doesn't see; the base of those that it does.

    A kind of position overrides one method, or both.
    """

    def turn(self, q: Query, k: Key, queries: Places, keys: Places) -> tuple[Query, Key]:
        """Return q and k as they meet each other, each knowing its own position.

        Args:
            q: (batch, heads, queries, head_dim).
            k: (batch, kv_heads, keys, head_dim).
            queries: positions of the queries.
            keys: positions of the keys.
        """
        del queries, keys
        return q, k

    def bias(self, q: Query, queries: Places, keys: Places) -> Bias | None:
        """Return what is added to the scores, or None.

        Args:
            q: (batch, heads, queries, head_dim), turned and scaled as it meets k.
            queries: positions of the queries.
            keys: positions of all keys, those in a cache included.
        """
        del q, queries, keys
        return None


def distances(queries: Places, keys: Places) -> Int[Tensor, "#batch 1 queries keys"]:
    """Return key - query for each pair: negative for keys that came earlier."""
    difference = keys[..., None, :] - queries[..., :, None]
    return difference[None, None] if difference.dim() == 2 else difference[:, None]
