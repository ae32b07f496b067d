"""Which keys a band around the diagonal shows, and how far a key is from its query.

flash-attn's convention: with queries and keys aligned at the bottom-right corner, query i stands
at position i + keys - queries, and sees keys from `left` before it to `right` behind it;
-1 = no limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnscope.axes import Bias
from attnscope.calls.mask import Mask

__all__ = ["Band", "distances", "document_distances", "linear_bias"]


@dataclass(frozen=True, slots=True)
class Band:
    """How many keys before and behind itself a query sees; -1: all."""

    left: int = -1
    right: int = -1

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Band:
        """Return the band of the arguments `causal` and `window_size`."""
        left, right = given.get("window_size", (-1, -1))
        return cls(left, 0 if given["causal"] else right)

    @property
    def limits(self) -> bool:
        """Whether any key could be hidden."""
        return self.left >= 0 or self.right >= 0

    def mask(self, queries: int, keys: int) -> Mask:
        """Return the mask of one sequence aligned at the bottom-right corner."""
        if not self.limits:
            return Mask.nothing()
        if self.right == 0:
            window = self.left + 1 if self.left >= 0 else None
            return Mask.causal_mask("bottom-right", queries, keys, window)
        return Mask.from_tensor(self.shows(distances(queries, keys)))

    def shows(self, distance: Tensor) -> Tensor:
        """Return where keys at `distance` (key less query position) are seen."""
        seen = torch.ones_like(distance, dtype=torch.bool)
        if self.left >= 0:
            seen &= distance >= -self.left
        if self.right >= 0:
            seen &= distance <= self.right
        return seen


def distances(queries: int, keys: int, lengths: Tensor | None = None) -> Tensor:
    """Return key position less query position: (queries, keys).

    lengths: how many keys count in each sample (batch,); then (batch, 1, queries, keys).
    """
    device = None if lengths is None else lengths.device
    key = torch.arange(keys, device=device)
    query = torch.arange(queries, device=device)[:, None] - queries
    if lengths is None:
        return key - (query + keys)
    return key - (query + lengths[:, None, None, None])


def document_distances(query_starts: Tensor, key_starts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return for packed sequences which pairs share one, their distances, each query's sequence.

    query_starts, key_starts: cumulative lengths from 0, (sequences + 1,).
    Returns (queries, keys) of bool, (queries, keys) of int, (queries,) of int.
    """
    query, key = _sequences(query_starts), _sequences(key_starts)
    query_place = torch.arange(len(query), device=query.device) - query_starts[query]
    key_place = torch.arange(len(key), device=key.device) - key_starts[key]
    shift = (key_starts.diff() - query_starts.diff())[query]
    distance = key_place - (query_place + shift)[:, None]
    return query[:, None] == key, distance, query


def _sequences(starts: Tensor) -> Tensor:
    """Return the number of the sequence of each packed token."""
    lengths = starts.diff().long()
    return torch.arange(len(lengths), device=starts.device).repeat_interleave(lengths)


def linear_bias(slopes: Tensor, distance: Tensor, sequence: Tensor | None = None) -> Bias:
    """Return ALiBi's `-slope · |distance|`, broadcastable to (batch, heads, queries, keys).

    slopes: (heads,), or (batch, heads). distance: (…, queries, keys).
    sequence: the sample of each query where all are packed into one batch.
    """
    while distance.dim() < len("bhqk"):
        distance = distance.unsqueeze(0)
    if slopes.dim() == 1:
        steep = slopes[None, :, None, None]
    elif sequence is None:
        steep = slopes[:, :, None, None]
    else:
        steep = slopes[sequence].T[None, :, :, None]
    return -steep.float() * distance.abs()
