"""What the forward of `MultiheadAttention` refuses: types, widths, masks and caches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attnscope.nn.cache import KeyValueCache
from attnscope.nn.kinds import described
from attnscope.nn.masks import Mask
from attnscope.nn.projections import Widths
from attnscope.nn.refusals import RefusedInputError

__all__ = ["check_cache", "check_inputs", "check_mask", "check_torch_masks", "check_types"]
__all__ += ["check_visible"]

_BATCHED, _UNBATCHED = 3, 2
_ATTENDING = "attending"
_CAST = {torch.float32, torch.float16, torch.bfloat16}


def check_types(
    module: nn.Module,
    query: object,
    key: object,
    value: object,
    key_padding_mask: object,
    attn_mask: object,
    mask: object,
    cache: object,
) -> None:
    """Refuse arguments of a forward that are of another kind than they should be.

    Inputs have a type that the module computes in, if autocast doesn't choose it.
    """
    usual = next((parameter.dtype for parameter in module.parameters()), None)
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise RefusedInputError(_ATTENDING, f"{name}: {described(tensor)}", "give a tensor")
        if tensor.dtype != usual:
            _check_dtype(module, name, tensor)
    for name, hiding in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
        if hiding is not None and not isinstance(hiding, Tensor):
            raise RefusedInputError(
                f"masking by {name}",
                described(hiding),
                "give a tensor: booleans (True = may NOT attend) or floats to add",
            )
    if mask is not None and not isinstance(mask, Mask):
        raise RefusedInputError(
            "masking by mask",
            described(mask),
            "give Padding(real), Documents(ids), Causal() …; tensors of torch's convention"
            " (True = may NOT attend) go to attn_mask or key_padding_mask",
        )
    if cache is not None and not isinstance(cache, KeyValueCache):
        raise RefusedInputError(
            "attending with a cache", described(cache), "give the one of module.new_cache()"
        )


def _check_dtype(module: nn.Module, name: str, tensor: Tensor) -> None:
    if torch.compiler.is_compiling():
        return
    own = {p.dtype for p in module.parameters() if p.is_floating_point()}
    if tensor.dtype in own:
        return
    cast = tensor.dtype in _CAST and torch.is_autocast_enabled(tensor.device.type)
    if not cast and (own or not tensor.is_floating_point()):
        names = " or ".join(sorted(map(str, own))) or "floats"
        raise RefusedInputError(
            _ATTENDING,
            f"{name} {tuple(tensor.shape)} of {tensor.dtype}, with parameters of {names}",
            f"give {name} as {names}, or convert the module: module.to({tensor.dtype})"
            if tensor.is_floating_point()
            else f"give {name} as {names}: token ids go through an embedding first",
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


def check_torch_masks(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None,
    attn: Tensor | None,
    hint: bool,  # noqa: FBT001  torch's own argument
) -> None:
    """Refuse inputs and masks that don't fit, where torch computes with them by itself.

    Nested tensors have no sizes to fit, and a mask with a hint need not be looked at.
    """
    if any(x.is_nested for x in (query, key, value)):
        return
    axis = 0 if module.batch_first else 1
    batched = check_inputs(query, key, value, module.widths, axis)
    batch: tuple[int, ...] = (query.shape[axis],) if batched else ()
    tokens = 1 - axis if batched else 0
    queries, keys = query.shape[tokens], key.shape[tokens]
    check_mask("key_padding_mask", padding, (*batch, keys))
    if not hint:
        samples = module.num_heads * (batch[0] if batched else 1)
        check_mask("attn_mask", attn, (queries, keys), (samples, queries, keys))


def check_visible(mask: Mask, visible: Tensor, sizes: tuple[int, ...]) -> None:
    """Refuse what a mask shows of another batch: `sizes` are batch, heads, queries, keys."""
    fits = visible.dtype == torch.bool and visible.dim() == len(sizes)
    if fits and all(a in {1, b} for a, b in zip(visible.shape, sizes, strict=True)):
        return
    raise RefusedInputError(
        f"masking by {type(mask).__name__}",
        f"who may attend as {tuple(visible.shape)} of {visible.dtype}, where (batch, heads,"
        f" queries, keys) are {sizes}",
        f"give a mask for {sizes[0]} samples: booleans, True = may attend, axes of 1 are repeated",
    )


def check_cache(cache: KeyValueCache, module: nn.Module, *masks: Mask | None) -> None:
    """Refuse the cache of another module, or one that forgets what the masks still show."""
    if not torch.compiler.is_compiling():
        cache.serve(module)
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
