"""What `MultiheadAttention` refuses, before anything is computed: sizes, widths, masks."""

from __future__ import annotations

import torch
from torch import Tensor

from attnscope.nn.cache import KeyValueCache
from attnscope.nn.masks import Mask
from attnscope.nn.projections import Widths
from attnscope.nn.refusals import RefusedInputError

__all__ = ["check_cache", "check_inputs", "check_mask", "check_sizes"]

_BATCHED, _UNBATCHED = 3, 2
_MAKING = "making a MultiheadAttention"
_ATTENDING = "attending"


def check_sizes(embed_dim: int, heads: int, kv_heads: int, head_dim: int | None) -> None:
    """Refuse sizes that don't divide each other."""
    if embed_dim <= 0 or heads <= 0:
        raise RefusedInputError(
            _MAKING, f"embed_dim={embed_dim}, num_heads={heads}", "give positive numbers"
        )
    if head_dim is None and embed_dim % heads:
        raise RefusedInputError(
            _MAKING,
            f"embed_dim {embed_dim}, which is not divisible by num_heads {heads}",
            "choose them so that embed_dim = num_heads * head_dim, or give head_dim",
        )
    if head_dim is not None and head_dim < 1:
        raise RefusedInputError(_MAKING, f"head_dim={head_dim}", "give a positive number")
    if kv_heads < 1 or heads % kv_heads:
        raise RefusedInputError(
            _MAKING,
            f"num_heads {heads}, which kv_heads {kv_heads} does not divide",
            "choose kv_heads so that each serves the same number of heads",
        )


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, widths: Widths, batch_axis: int
) -> bool:
    """Refuse inputs with or without a batch axis that don't fit; return whether they have one."""
    if any(x.is_nested for x in (query, key, value)):
        raise RefusedInputError(
            _ATTENDING,
            "a nested tensor",
            "give padded tensors and a mask (nn.TransformerEncoder: enable_nested_tensor=False)",
        )
    rank = query.dim()
    if rank not in {_BATCHED, _UNBATCHED} or key.dim() != rank or value.dim() != rank:
        raise RefusedInputError(
            _ATTENDING,
            f"{_shapes(query, key, value)}, of {rank}, {key.dim()} and {value.dim()} axes",
            "give all three with a batch (3 axes), or all three without (2 axes)",
        )
    wanted = (widths.embed, widths.keys, widths.values)
    if (query.shape[-1], key.shape[-1], value.shape[-1]) != wanted:
        raise RefusedInputError(
            _ATTENDING,
            _shapes(query, key, value),
            "give last axes of {} (embed_dim), {} (kdim) and {} (vdim)".format(*wanted),
        )
    if key.shape[:-1] != value.shape[:-1]:
        found = _shapes(query, key, value)
        raise RefusedInputError(_ATTENDING, found, "give as many values as keys, in one batch")
    if rank == _BATCHED and query.shape[batch_axis] != key.shape[batch_axis]:
        raise RefusedInputError(
            _ATTENDING,
            _shapes(query, key, value),
            f"give one batch size along axis {batch_axis}, or change batch_first",
        )
    return rank == _BATCHED


def check_mask(name: str, mask: Tensor | None, *allowed: tuple[int, ...]) -> None:
    """Refuse a mask of torch's convention (True = hidden, or floats to add) of another shape."""
    if mask is None:
        return
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise RefusedInputError(
            f"masking by {name}",
            f"a tensor of {mask.dtype}",
            "give booleans (True = may NOT attend) or floats that are added to the scores",
        )
    if tuple(mask.shape) not in allowed:
        raise RefusedInputError(
            f"masking by {name}",
            f"a shape of {tuple(mask.shape)}",
            f"give {' or '.join(map(str, dict.fromkeys(allowed)))}",
        )


def check_cache(cache: KeyValueCache, *masks: Mask | None) -> None:
    """Refuse a cache that forgets what the masks, all of them together, still show."""
    reaches = [mask.reach for mask in masks if mask is not None and mask.reach is not None]
    reach = min(reaches, default=None)
    if cache.window is not None and (reach is None or reach - 1 > cache.window):
        raise RefusedInputError(
            "attending with a cache",
            f"a cache of {cache.window} tokens, where the mask shows {reach or 'all'} of them",
            "make the cache with module.new_cache(), or a mask with Window(n) of this size",
        )


def _shapes(*inputs: Tensor) -> str:
    names = ("query", "key", "value")
    return ", ".join(f"{name} {tuple(x.shape)}" for name, x in zip(names, inputs, strict=True))
