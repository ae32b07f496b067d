"""Multi-head latent attention: keys and values are made of one narrow latent vector a token.

The cache keeps the latent and one rotary key for all heads. The plain form widens them to full
keys and values; the absorbed form moves the widening to the other side of each product, so that
all heads attend to the latents themselves. Both give the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from attnscope.reference.arrays import AsArray
from attnscope.reference.axes import Tokens
from attnscope.reference.forward import Attention, attention
from attnscope.reference.heads import merge_heads
from attnscope.reference.parts import ForwardOptions
from attnscope.reference.projected.latent_streams import LatentForm, LatentWeights, Streams, streams
from attnscope.reference.projected.projections import project

__all__ = ["Latent", "latent", "latent_absorbed"]


@dataclass(frozen=True, slots=True, eq=False)
class Latent(AsArray):
    """Every step of one latent attention; as an array its output.

    latent: (batch, keys, rank), after the norm; rotary_key: (batch, keys, rope), after the turn:
    the two that a cache keeps. attention: from scores to context; in the absorbed form the context
    is a mean of latents (batch, heads, queries, rank). output: (batch, queries, width).
    """

    latent: Tokens
    rotary_key: Tokens
    attention: Attention
    output: Tokens

    main = "output"


def latent(
    x: Tokens,
    weights: LatentWeights,
    form: LatentForm,
    *,
    positions: ArrayLike | None = None,
    **options: Unpack[ForwardOptions],
) -> Latent:
    """Let tokens attend to each other by keys and values that are made of their latents.

    With ``R`` the rotary turn, ``h`` a head, ``[ , ]`` side by side::

        c        = norm(x W_downᵀ)                         the latent
        r        = R(x W_ropeᵀ)                            one rotary key for all heads
        k_h, v_h = [c W_hkᵀ, r], c W_hvᵀ
        q_h      = [x W_hqᵀ, R(x W_hrᵀ)]                   or norm(x W_qdownᵀ) in place of x
        output   = merge(attention(q, k, v)) W_oᵀ          scale 1/√(nope + rope)

    Args:
        x: (batch, length, width), or (length, width).
        weights: see `LatentWeights`.
        form: heads and what belongs to the rotary part and the norms.
        positions: as in `rotary`; None: 0, 1, 2, …
        options: those of `attention`; a causal mask is not implied.

    Raises:
        InputError: weights whose sizes don't fit each other.

    Source: DeepSeek-AI 2024, "DeepSeek-V2", 2.1 and appendix B. Elsewhere: MLA.

    >>> rng = np.random.default_rng(0)
    >>> sizes = {"q": (8, 6), "kv_down": (5, 6), "kv_up": (8, 3), "output": (6, 4)}
    >>> drawn = {name: rng.normal(size=size) for name, size in sizes.items()}
    >>> weights = LatentWeights(**drawn, kv_norm=np.ones(3))
    >>> plain = latent(x := rng.normal(size=(4, 6)), weights, LatentForm(heads=2), causal=True)
    >>> absorbed = latent_absorbed(x, weights, LatentForm(heads=2), causal=True)
    >>> plain.latent.shape, plain.rotary_key.shape, bool(np.allclose(plain, absorbed))
    ((4, 3), (4, 2), True)
    """
    seen = streams(x, weights, form, positions)
    inner = attention(seen.q, seen.k, seen.v, **options)
    return _result(seen, inner, merge_heads(inner.context), weights)


def latent_absorbed(
    x: Tokens,
    weights: LatentWeights,
    form: LatentForm,
    *,
    positions: ArrayLike | None = None,
    **options: Unpack[ForwardOptions],
) -> Latent:
    """Compute `latent` without its keys and values: all heads attend to the latents.

    ``q·(W_k c) = (W_kᵀ q)·c`` and ``Σ w (W_v c) = W_v (Σ w c)``, so with one kv head::

        context  = attention([q_h W_hk, R(…)], [c, r], c)   scale 1/√(nope + rope), as before
        output   = merge(context_h W_hvᵀ) W_oᵀ

    Arguments, errors and source are those of `latent`. Elsewhere: "weight absorption", what
    FlashMLA computes in decoding.

    >>> sizes = {"q": (8, 6), "kv_down": (5, 6), "kv_up": (8, 3), "output": (6, 4)}
    >>> ones = {name: np.ones(size) for name, size in sizes.items()}
    >>> weights = LatentWeights(**ones, kv_norm=np.ones(3))
    >>> latent_absorbed(np.ones((4, 6)), weights, LatentForm(heads=2)).attention.context.shape
    (2, 4, 3)
    """
    seen = streams(x, weights, form, positions)
    nope = seen.nope
    up = np.asarray(weights.kv_up).reshape(form.heads, -1, seen.latent.shape[-1])
    to_key, to_value = up[:, :nope], up[:, nope:]
    q = np.concatenate([seen.q[..., :nope] @ to_key, seen.q[..., nope:]], axis=-1)
    k = np.concatenate([seen.latent, seen.rotary_key], axis=-1)[..., None, :, :]
    if options.get("scale") is None:
        options["scale"] = seen.q.shape[-1] ** -0.5
    inner = attention(q, k, seen.latent[..., None, :, :], **options)
    merged = merge_heads(inner.context @ to_value.swapaxes(-1, -2))
    return _result(seen, inner, merged, weights)


def _result(seen: Streams, inner: Attention, merged: Tokens, weights: LatentWeights) -> Latent:
    output = project(merged, weights.output, weights.output_bias, "the output")
    return Latent(seen.latent, seen.rotary_key, inner, output)
