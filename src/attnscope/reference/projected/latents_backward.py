"""The gradients of latent attention: through attention, turn, norms and projections."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from attnscope.reference.axes import Tokens
from attnscope.reference.backward import AttentionGradients, attention_backward
from attnscope.reference.given import gradient_of
from attnscope.reference.heads import merge_heads, split_heads
from attnscope.reference.parts import Options, backward_options
from attnscope.reference.projected.latent_streams import (
    LatentForm,
    LatentWeights,
    Streams,
    streams,
    turn_back,
)
from attnscope.reference.projected.latents import latent
from attnscope.reference.projected.norms import rms_norm_backward
from attnscope.reference.projected.projections import project, project_backward

__all__ = ["LatentGradients", "latent_backward"]


@dataclass(frozen=True, slots=True, eq=False)
class LatentGradients:
    """The gradients of tokens and weights, and of the attention between (plain form)."""

    x: Tokens
    weights: LatentWeights
    attention: AttentionGradients


def latent_backward(
    gradient: Tokens,
    x: Tokens,
    weights: LatentWeights,
    form: LatentForm,
    *,
    positions: ArrayLike | None = None,
    **options: Unpack[Options],
) -> LatentGradients:
    """Return the gradients of tokens and weights from one of the output.

    Through the plain form; those of the absorbed form are the same. The rotary key of all heads
    gets the sum over the heads, turned back; then norms and projections, as
    `rms_norm_backward` and `project_backward`.

    Args:
        gradient: of the output, (batch, length, width).
        x: as in `latent`; so are the others.
        weights: see x.
        form: see x.
        positions: see x.
        options: see x; without the edits.

    Raises:
        InputError: as `latent`; or an edit, or a gradient that has not the shape of the output.
        TypeError: an option that `attention` has not.

    >>> rng = np.random.default_rng(0)
    >>> sizes = {"q": (8, 6), "kv_down": (5, 6), "kv_up": (8, 3), "output": (6, 4)}
    >>> drawn = {name: rng.normal(size=size) for name, size in sizes.items()}
    >>> weights, x = LatentWeights(**drawn, kv_norm=np.ones(3)), rng.normal(size=(4, 6))
    >>> latent_backward(np.ones((4, 6)), x, weights, LatentForm(heads=2)).weights.kv_down.shape
    (5, 6)
    """
    backward_options("latent_backward", options)
    seen = streams(x, weights, form, positions)
    inside = latent(x, weights, form, positions=positions, **options)
    doing = "computing the gradients of latent attention"
    gradient = gradient_of(doing, gradient, inside.output.shape)
    merged = merge_heads(inside.attention.context)
    of_merged, of_output, of_output_bias = project_backward(gradient, merged, weights.output)
    of_context = split_heads(of_merged, form.heads)
    inner = attention_backward(of_context, seen.q, seen.k, seen.v, **options)
    of_asking, asking = _through_q(inner, seen, x, weights, form, positions)
    of_asked, asked = _through_kv(inner, seen, x, weights, form, positions)
    gradients = replace(
        asked,
        q=asking.q,
        q_down=asking.q_down,
        q_norm=asking.q_norm,
        q_down_bias=asking.q_down_bias,
        output=of_output,
        output_bias=None if weights.output_bias is None else of_output_bias,
    )
    return LatentGradients(of_asking + of_asked, gradients, inner)


def _through_q(
    inner: AttentionGradients,
    seen: Streams,
    x: Tokens,
    weights: LatentWeights,
    form: LatentForm,
    positions: ArrayLike | None,
) -> tuple[Tokens, LatentWeights]:
    """Return the gradients of tokens and of the weights on the way to q; the others unchanged."""
    plain, turned = np.split(inner.q, [seen.nope], axis=-1)
    of_q = np.concatenate([plain, turn_back(turned, form, positions)], axis=-1)
    of_asking, of_weight, _ = project_backward(merge_heads(of_q), seen.asking, weights.q)
    if weights.q_down is None or weights.q_norm is None:
        return of_asking, replace(weights, q=of_weight)
    narrow = project(x, weights.q_down, weights.q_down_bias, "q")
    of_narrow, of_norm = rms_norm_backward(of_asking, narrow, weights.q_norm, form.eps)
    of_x, of_down, of_bias = project_backward(of_narrow, x, weights.q_down)
    bias = None if weights.q_down_bias is None else of_bias
    found = replace(weights, q=of_weight, q_norm=of_norm, q_down=of_down, q_down_bias=bias)
    return of_x, found


def _through_kv(
    inner: AttentionGradients,
    seen: Streams,
    x: Tokens,
    weights: LatentWeights,
    form: LatentForm,
    positions: ArrayLike | None,
) -> tuple[Tokens, LatentWeights]:
    """Return the same on the way to k and v."""
    plain, turned = np.split(inner.k, [seen.nope], axis=-1)
    of_up = merge_heads(np.concatenate([plain, inner.v], axis=-1))
    of_latent, of_kv_up, _ = project_backward(of_up, seen.latent, weights.kv_up)
    before = seen.down[..., : seen.latent.shape[-1]]
    of_before, of_norm = rms_norm_backward(of_latent, before, weights.kv_norm, form.eps)
    of_shared = turn_back(turned.sum(-3, keepdims=True), form, positions)[..., 0, :, :]
    of_down = np.concatenate([of_before, of_shared], axis=-1)
    of_x, of_weight, of_bias = project_backward(of_down, x, weights.kv_down)
    bias = None if weights.kv_down_bias is None else of_bias
    found = replace(weights, kv_up=of_kv_up, kv_norm=of_norm, kv_down=of_weight, kv_down_bias=bias)
    return of_x, found
