"""Nested tensors (samples of different lengths) as padded ones with a mask."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.calls.mask import Mask

__all__ = ["lengths_of", "padded", "padding_mask"]


def padded(nested: Tensor) -> Tensor:
    """Return a nested tensor as a dense one, zero where a sample has ended."""
    dense: Tensor = torch.nested.to_padded_tensor(nested.detach(), 0.0)
    return dense


def lengths_of(nested: Tensor, axis: int) -> Tensor:
    """Return the size along `axis` of each sample: (batch,) of int64."""
    return torch.tensor([sample.shape[axis] for sample in nested.detach().unbind()])


def padding_mask(query_lengths: Tensor, key_lengths: Tensor, queries: int, keys: int) -> Mask:
    """Return the mask of padded samples: padding sees nothing and is not seen."""
    rows = torch.arange(queries) < query_lengths[:, None]
    seen = torch.arange(keys) < key_lengths[:, None]
    return Mask.from_tensor(rows[:, None, :, None] & seen[:, None, None, :], queries, keys)
