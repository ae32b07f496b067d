"""From tokens to heads and back, and which kv head each query head meets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from attnscope.errors import InputError
from attnscope.reference.axes import AnyFloat, Tokens
from attnscope.reference.given import array, choice, count, real, whole

__all__ = ["KvMap", "expand_kv", "kv_head_map", "merge_heads", "split_heads", "sum_groups"]

KvMap: TypeAlias = Literal["repeated", "tiled"] | Sequence[int]
"""How query heads meet kv heads: by one of two rules, or the kv head of each query head."""


def split_heads(x: Tokens, heads: int) -> AnyFloat:
    """Cut the width of each token into heads: head h takes features h·d to (h+1)·d.

    ``(..., length, heads·head_dim)`` becomes ``(..., heads, length, head_dim)``: first the width
    is cut in two axes, then heads and length change places. Cutting into (heads, length) at once
    (``x.view(batch, heads, length, head_dim)``) mixes heads with tokens.

    Source: Vaswani et al. 2017, "Attention Is All You Need", 3.2.2. Elsewhere:
    ``transpose_for_scores`` (BERT), ``rearrange(x, "b n (h d) -> b h n d")``.

    Raises:
        InputError: the width is no multiple of the heads.

    >>> split_heads(np.arange(8.0).reshape(2, 4), heads=2)[1]
    array([[2., 3.],
           [6., 7.]])
    """
    x, heads = array("splitting heads", "x", x), count("splitting heads", "heads", heads)
    width = x.shape[-1] if x.ndim else 0
    if x.ndim < 2 or width % heads:
        raise InputError(
            "splitting heads",
            f"an array of shape {x.shape} for {heads} heads",
            "give (..., length, width) with a width that is a multiple of the heads",
        )
    return x.reshape(*x.shape[:-1], heads, width // heads).swapaxes(-3, -2)


def merge_heads(x: AnyFloat) -> Tokens:
    """Put the heads of each token side by side: the inverse of `split_heads`.

    ``(..., heads, length, value_dim)`` becomes ``(..., length, heads·value_dim)``. It is the
    transpose of `split_heads`, too, so each is the other's backward.

    Source: Vaswani et al. 2017, 3.2.2, "Concat(head_1, ..., head_h)".

    Raises:
        InputError: there is no axis of heads.

    >>> x = np.arange(8.0).reshape(2, 4)
    >>> bool((merge_heads(split_heads(x, heads=2)) == x).all())
    True
    """
    x = array("merging heads", "x", x)
    if x.ndim < 3:
        raise InputError(
            "merging heads",
            f"an array of shape {x.shape}",
            "give (..., heads, length, value_dim)",
        )
    turned = x.swapaxes(-3, -2)
    return turned.reshape(*turned.shape[:-2], turned.shape[-2] * turned.shape[-1])


def kv_head_map(heads: int, kv_heads: int, order: KvMap = "repeated") -> tuple[int, ...]:
    """Return for each query head the kv head that it meets.

    With ``group = heads / kv_heads``: "repeated" is ``h // group``, neighbours share (Llama and
    all who follow it: ``repeat_interleave``, ``repeat_kv``, ``enable_gqa=True``); "tiled" is
    ``h % kv_heads``, the kv heads in turn (``tensor.repeat``). A sequence is checked and returned.

    Source: Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models", 2.2.

    Raises:
        InputError: the heads are no multiple of the kv heads, or a given map does not fit them.

    >>> kv_head_map(4, 2), kv_head_map(4, 2, "tiled")
    ((0, 0, 1, 1), (0, 1, 0, 1))
    """
    doing = "matching query heads with kv heads"
    heads = count(doing, "heads", heads, least=0)
    kv_heads = count(doing, "kv_heads", kv_heads, least=0)
    if isinstance(order, str):
        choice(doing, "the order", order, ("repeated", "tiled"))
    else:
        given = tuple(int(head) for head in whole(doing, "the map", order, axes=1).flat)
        if len(given) != heads or not all(0 <= head < kv_heads for head in given):
            raise InputError(
                doing,
                f"the map {given} for {heads} heads and {kv_heads} kv heads",
                f"give {heads} numbers from 0 to {kv_heads - 1}",
            )
        return given
    if kv_heads < 1 or heads % kv_heads:
        raise InputError(
            doing,
            f"{heads} heads and {kv_heads} kv heads",
            "give heads that are a multiple of the kv heads, or name the kv head of each",
        )
    if order == "tiled":
        return tuple(head % kv_heads for head in range(heads))
    return tuple(head // (heads // kv_heads) for head in range(heads))


def expand_kv(x: AnyFloat, heads: int, order: KvMap = "repeated") -> AnyFloat:
    """Give every query head its kv head: (..., kv_heads, keys, width) to (..., heads, keys, width).

    Elsewhere: ``repeat_kv`` (Hugging Face), ``enable_gqa=True`` (PyTorch).

    Raises:
        InputError: as `kv_head_map`, or there is no axis of heads.

    >>> expand_kv(np.array([[[1.0]], [[2.0]]]), heads=4).ravel()
    array([1., 1., 2., 2.])
    """
    x = array("expanding kv heads", "x", x)
    if x.ndim < 3:
        raise InputError(
            "expanding kv heads",
            f"an array of shape {x.shape}",
            "give (..., kv_heads, keys, width)",
        )
    return np.take(x, kv_head_map(heads, x.shape[-3], order), axis=-3)


def sum_groups(gradient: AnyFloat, kv_heads: int, order: KvMap = "repeated") -> AnyFloat:
    """Sum the gradients of the query heads that met one kv head: the backward of `expand_kv`.

    (..., heads, keys, width) to (..., kv_heads, keys, width).

    Raises:
        InputError: as `kv_head_map`.

    >>> sum_groups(np.array([[[1.0]], [[2.0]], [[3.0]], [[4.0]]]), kv_heads=2).ravel()
    array([3., 7.])
    """
    gradient = real("summing over the heads that share a kv head", "the gradient", gradient, axes=3)
    kv_heads = count("summing over the heads that share a kv head", "kv_heads", kv_heads)
    met = np.array(kv_head_map(gradient.shape[-3], kv_heads, order))
    mine = [gradient[..., met == kv_head, :, :].sum(-3) for kv_head in range(kv_heads)]
    return np.stack(mine, axis=-3)
