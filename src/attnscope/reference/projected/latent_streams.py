"""The weights of latent attention, and the q, k and v that follow from them and the tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from attnscope.errors import InputError
from attnscope.reference.axes import Key, Matrix, Query, Tokens, Value, Vector
from attnscope.reference.given import count, instance
from attnscope.reference.heads import split_heads
from attnscope.reference.positions import RotaryScaling, rotary, rotary_backward
from attnscope.reference.positions.rotary_turning import Pairing, RotaryOptions
from attnscope.reference.projected.norms import rms_norm
from attnscope.reference.projected.projections import project

__all__ = ["LatentForm", "LatentWeights", "Streams", "streams"]

DOING = "computing latent attention"


@dataclass(frozen=True, slots=True)
class LatentForm:
    """What the weights alone don't tell.

    heads: all other sizes follow from it and the weights. pairing, base, scaling: of the rotary
    part, as in `rotary`. eps: of both RMS norms.
    """

    heads: int
    pairing: Pairing = "interleaved"
    base: float = 10000.0
    scaling: RotaryScaling | None = None
    eps: float = 1e-6

    def __post_init__(self) -> None:
        count(DOING, "heads", self.heads)

    @property
    def rotary(self) -> RotaryOptions:
        """The part that `rotary` takes, by name."""
        return {"pairing": self.pairing, "base": self.base, "scaling": self.scaling}


@dataclass(frozen=True, slots=True, eq=False)
class LatentWeights:
    """The projections of latent attention, each (out, in) as in ``torch.nn.Linear``.

    The names in brackets are those of DeepSeek-V2 in Hugging Face. Of each head the rows are plain
    (nope) and then rotary (rope) in q, plain keys and then values in kv_up.

    q: (heads·(nope + rope), width, or the rank of q) [q_proj, q_b_proj].
    kv_down: (rank + rope, width) [kv_a_proj_with_mqa]: the latent, then the shared rotary key.
    kv_norm: (rank,), the gain of the latent's RMS norm [kv_a_layernorm].
    kv_up: (heads·(nope + value_dim), rank) [kv_b_proj].
    output: (width, heads·value_dim) [o_proj].
    q_down, q_norm: (rank of q, width) and (rank of q,) where q is compressed, too
        [q_a_proj, q_a_layernorm].
    """

    q: Matrix
    kv_down: Matrix
    kv_norm: Vector
    kv_up: Matrix
    output: Matrix
    q_down: Matrix | None = None
    q_norm: Vector | None = None
    q_down_bias: Vector | None = None
    kv_down_bias: Vector | None = None
    output_bias: Vector | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Streams:
    """What enters the attention in the plain form, and what it was made of.

    nope: width of the plain part of q and k, which comes first in each head.
    asking: what q was projected from; down: latent and rotary key before norm and turn.
    latent, rotary_key: after norm and turn, (..., keys, rank or rope).
    """

    nope: int
    asking: Tokens
    down: Tokens
    latent: Tokens
    rotary_key: Tokens
    q: Query
    k: Key
    v: Value


def streams(
    x: Tokens, weights: LatentWeights, form: LatentForm, positions: ArrayLike | None
) -> Streams:
    """Return q, k and v of latent attention; the formula stands at `latent`.

    Raises:
        InputError: weights whose sizes don't fit each other.

    >>> weights = LatentWeights(np.eye(8), np.eye(5, 8), np.ones(3), np.eye(8, 3), np.eye(8, 4))
    >>> streams(np.ones((6, 8)), weights, LatentForm(heads=2), None).k.shape
    (2, 6, 4)
    """
    nope, rank = _sizes(weights, form)
    asking = x
    if weights.q_down is not None and weights.q_norm is not None:
        narrow = project(x, weights.q_down, weights.q_down_bias, "q")
        asking = rms_norm(narrow, weights.q_norm, form.eps)
    q = split_heads(project(asking, weights.q, None, "q"), form.heads)
    q = np.concatenate([q[..., :nope], turn(q[..., nope:], form, positions)], axis=-1)
    down = project(x, weights.kv_down, weights.kv_down_bias, "the latent")
    compressed = rms_norm(down[..., :rank], weights.kv_norm, form.eps)
    rotary_key = turn(down[..., None, :, rank:], form, positions)
    up = split_heads(project(compressed, weights.kv_up, None, "keys and values"), form.heads)
    shared = np.broadcast_to(rotary_key, (*up.shape[:-1], rotary_key.shape[-1]))
    k = np.concatenate([up[..., :nope], shared], axis=-1)
    return Streams(nope, asking, down, compressed, rotary_key[..., 0, :, :], q, k, up[..., nope:])


def turn(x: Query, form: LatentForm, positions: ArrayLike | None) -> Query:
    """Turn the rotary part of q or k (..., heads, length, rope).

    >>> float(turn(np.array([[[1.0, 0.0]]]), LatentForm(heads=1), [0])[0, 0, 0])
    1.0
    """
    return rotary(x, positions, **form.rotary)


def turn_back(gradient: Query, form: LatentForm, positions: ArrayLike | None) -> Query:
    """Return the gradient before the turn from that after it.

    >>> float(turn_back(np.array([[[1.0, 0.0]]]), LatentForm(heads=1), [0])[0, 0, 0])
    1.0
    """
    return rotary_backward(gradient, positions, **form.rotary)


def _sizes(weights: LatentWeights, form: LatentForm) -> tuple[int, int]:
    """Return the widths of the plain part of a head, and of the latent."""
    instance(DOING, "weights", weights, LatentWeights)
    instance(DOING, "form", form, LatentForm)
    rows = {name: len(getattr(weights, name)) for name in ("q", "kv_down", "kv_up")}
    rank = np.shape(weights.kv_up)[-1]
    rope = rows["kv_down"] - rank
    heads = form.heads
    nope = rows["q"] // heads - rope
    ragged = rows["q"] % heads or rows["kv_up"] % heads
    if ragged or rope < 1 or not 0 < nope < rows["kv_up"] // heads:
        raise InputError(
            DOING,
            f"{rows['q']} rows of q, {rows['kv_down']} of kv_down, kv_up of shape "
            f"{np.shape(weights.kv_up)}, for {form.heads} heads",
            "give q heads·(nope + rope) rows, kv_down rank + rope rows and kv_up "
            "(heads·(nope + value_dim), rank)",
        )
    if (weights.q_down is None) != (weights.q_norm is None):
        raise InputError(
            DOING,
            "one of q_down and q_norm alone",
            "give both where q is compressed, or none",
        )
    return nope, rank
