"""Stands for the package flash_attn: its signatures, computed sample by sample in plain PyTorch."""
# ruff: noqa: FBT001, FBT002  the signatures are those of the real package

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

Window = tuple[int, int]


def _attend(
    q: Tensor,  # (queries, heads, dim)
    k: Tensor,  # (keys, kv_heads, dim)
    v: Tensor,
    scale: float | None,
    causal: bool,
    window: Window,
    softcap: float,
    slopes: Tensor | None,  # (heads,)
) -> Tensor:
    queries, keys = q.shape[0], k.shape[0]
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * (scale or 1 / math.sqrt(q.shape[-1]))
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    left, right = window
    if causal:
        right = 0
    for i in range(queries):
        place = i + keys - queries
        for j in range(keys):
            if slopes is not None:
                scores[:, i, j] -= slopes * abs(place - j)
            if (left >= 0 and j < place - left) or (right >= 0 and j > place + right):
                scores[:, i, j] = -math.inf
    weights = torch.nan_to_num(scores.softmax(-1), 0.0)
    return torch.einsum("hqk,khd->qhd", weights, v)


def _slopes_of(slopes: Tensor | None, sample: int) -> Tensor | None:
    return slopes if slopes is None or slopes.dim() == 1 else slopes[sample]


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    del dropout_p, deterministic
    out = torch.stack(
        [
            _attend(
                q[b],
                k[b],
                v[b],
                softmax_scale,
                causal,
                window_size,
                softcap,
                _slopes_of(alibi_slopes, b),
            )
            for b in range(len(q))
        ]
    )
    return (out, torch.zeros(1), None) if return_attn_probs else out


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    del dropout_p, deterministic, return_attn_probs
    return torch.stack(
        [
            _attend(
                sample[:, 0],
                sample[:, 1],
                sample[:, 2],
                softmax_scale,
                causal,
                window_size,
                softcap,
                _slopes_of(alibi_slopes, b),
            )
            for b, sample in enumerate(qkv)
        ]
    )


def flash_attn_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    del dropout_p, deterministic, return_attn_probs
    return torch.stack(
        [
            _attend(
                q[b],
                kv[b, :, 0],
                kv[b, :, 1],
                softmax_scale,
                causal,
                window_size,
                softcap,
                _slopes_of(alibi_slopes, b),
            )
            for b in range(len(q))
        ]
    )


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Any:
    del max_seqlen_q, max_seqlen_k, dropout_p, deterministic, return_attn_probs, block_table
    parts = []
    for b in range(len(cu_seqlens_q) - 1):
        rows = slice(int(cu_seqlens_q[b]), int(cu_seqlens_q[b + 1]))
        keys = slice(int(cu_seqlens_k[b]), int(cu_seqlens_k[b + 1]))
        slopes = _slopes_of(alibi_slopes, b)
        parts.append(
            _attend(q[rows], k[keys], v[keys], softmax_scale, causal, window_size, softcap, slopes)
        )
    return torch.cat(parts)


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    del dropout_p, deterministic, return_attn_probs, max_seqlen
    parts = []
    for b in range(len(cu_seqlens) - 1):
        q, k, v = qkv[int(cu_seqlens[b]) : int(cu_seqlens[b + 1])].unbind(1)
        slopes = _slopes_of(alibi_slopes, b)
        parts.append(_attend(q, k, v, softmax_scale, causal, window_size, softcap, slopes))
    return torch.cat(parts)


def flash_attn_varlen_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    del max_seqlen_q, max_seqlen_k, dropout_p, deterministic, return_attn_probs
    parts = []
    for b in range(len(cu_seqlens_q) - 1):
        rows = slice(int(cu_seqlens_q[b]), int(cu_seqlens_q[b + 1]))
        k, v = kv[int(cu_seqlens_k[b]) : int(cu_seqlens_k[b + 1])].unbind(1)
        slopes = _slopes_of(alibi_slopes, b)
        parts.append(_attend(q[rows], k, v, softmax_scale, causal, window_size, softcap, slopes))
    return torch.cat(parts)


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    del num_splits
    parts = []
    for b in range(len(q)):
        row = b if cache_batch_idx is None else int(cache_batch_idx[b])
        page = k_cache.shape[1]
        if block_table is None:
            places = [(row, j) for j in range(page)]
        else:
            places = [(int(block), j) for block in block_table[b] for j in range(page)]
        length = len(places)
        if cache_seqlens is not None:
            length = cache_seqlens if isinstance(cache_seqlens, int) else int(cache_seqlens[b])
        query = q[b]
        if k is not None and v is not None:
            for new in range(k.shape[1]):
                key = k[b, new]
                if rotary_cos is not None and rotary_sin is not None:
                    key = _turn(key, rotary_cos, rotary_sin, length + new, rotary_interleaved)
                k_cache[places[length + new]], v_cache[places[length + new]] = key, v[b, new]
            if rotary_cos is not None and rotary_sin is not None:
                counts = causal or window_size != (-1, -1)
                query = torch.stack(
                    [
                        _turn(
                            query[i],
                            rotary_cos,
                            rotary_sin,
                            length + (i if counts else 0),
                            rotary_interleaved,
                        )
                        for i in range(len(query))
                    ]
                )
            length += k.shape[1]
        first = 0 if cache_leftpad is None else int(cache_leftpad[b])
        seen = places[first:length]
        keys = torch.stack([k_cache[place] for place in seen])
        values = torch.stack([v_cache[place] for place in seen])
        slopes = _slopes_of(alibi_slopes, b)
        parts.append(
            _attend(query, keys, values, softmax_scale, causal, window_size, softcap, slopes)
        )
    out = torch.stack(parts)
    return (out, torch.zeros(1)) if return_softmax_lse else out


def _turn(x: Tensor, cos: Tensor, sin: Tensor, place: int, interleaved: bool) -> Tensor:
    """Turn x (heads, dim) pair by pair."""
    half = cos.shape[1]
    out = x.clone()
    for pair in range(half):
        one, two = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + half)
        out[:, one] = x[:, one] * cos[place, pair] - x[:, two] * sin[place, pair]
        out[:, two] = x[:, one] * sin[place, pair] + x[:, two] * cos[place, pair]
    return out
