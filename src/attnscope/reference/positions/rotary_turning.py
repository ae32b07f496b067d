"""Rotary positions: q and k are turned, pair by pair, by an angle that grows with the position.

The same turn of q at position m and of k at position n leaves q·k a function of m - n. Two
pairings of the features are in use; a model trained with one and run with the other is quietly
wrong, so both are named here and `rotary_pairing` converts between them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict, Unpack

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from attnscope.errors import InputError
from attnscope.reference.given import choice, count, fit, number, real
from attnscope.reference.positions.rotary_scaling import RotaryScaling

__all__ = [
    "Pairing",
    "RotaryOptions",
    "rotary",
    "rotary_backward",
    "rotary_frequencies",
    "rotary_table",
    "turned_width",
]

Pairing: TypeAlias = Literal["half", "interleaved"]
Turned: TypeAlias = Float64[np.ndarray, "... length head_dim"]

_DOING = "turning by rotary positions"


class RotaryOptions(TypedDict, total=False):
    """The arguments of `rotary` that go by name."""

    pairing: Pairing
    base: float
    share: float
    scaling: RotaryScaling | None
    length: int | None


def rotary(
    x: ArrayLike,
    positions: ArrayLike | None = None,
    *,
    pairing: Pairing = "half",
    base: float = 10000.0,
    share: float = 1.0,
    scaling: RotaryScaling | None = None,
    length: int | None = None,
) -> Turned:
    """Return q or k turned by rotary positions; both have to be turned alike.

        width     = ⌊share · head_dim⌋, the features that turn: the first ones
        angle     = position · frequency[i]                        0 ≤ i < width/2, radians
        (a', b')  = (a cos angle - b sin angle, b cos angle + a sin angle) · amplitude
        half:         a, b = x[i], x[i + width/2]
        interleaved:  a, b = x[2i], x[2i + 1]

    Without scaling the frequency is base^(-2i / width), and the amplitude 1.

    Args:
        x: (..., length, head_dim), q or k before the product.
        positions: in tokens, real numbers: (length,) for all, (batch, length) where the first axis
            of x is the batch, or all axes of x but the last. None: 0, 1, 2, …
        pairing: which two features form a pair.
        base: the slowest pair turns once in nearly 2π · base tokens.
        share: of the features that turn; the others pass unchanged.
        scaling: how the frequencies are changed for long texts.
        length: of the whole sequence so far, which dynamic scalings ask for. None: the largest
            position + 1.

    Raises:
        InputError: an odd width, positions that don't fit x, or a pairing of another name.

    Source: Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding",
        section 3.2.2 and equation 34 (interleaved); GPT-NeoX 2022 (half, and the share).

    Elsewhere: "half" is `rotate_half` of Llama, Mistral, Qwen and NeoX in transformers, and
    interleaved=False of flash-attn; "interleaved" is `rotate_every_two` of GPT-J, `view_as_complex`
    of Meta's Llama, "NORM" in llama.cpp and torchtune. base: `rope_theta`. share:
    `partial_rotary_factor`, `rotary_pct`. amplitude: `attention_scaling`.

    Example:
        >>> x = np.array([[1.0, 0.0, 0.0, 0.0]])
        >>> rotary(x, [1]).round(4)
        array([[0.5403, 0.    , 0.8415, 0.    ]])
        >>> rotary(x, [1], pairing="interleaved").round(4)
        array([[0.5403, 0.8415, 0.    , 0.    ]])
    """
    choice(_DOING, "the pairing", pairing, ("half", "interleaved"))
    x = real(_DOING, "x", x, axes=2)
    width = turned_width(x.shape[-1], share)
    placed = _placed(_DOING, positions, x.shape)
    cosines, sines = rotary_table(placed, width, base=base, scaling=scaling, length=length)
    if pairing == "half":
        first, second = slice(0, width // 2), slice(width // 2, width)
    else:
        first, second = slice(0, width, 2), slice(1, width, 2)
    a, b = x[..., first], x[..., second]
    out = x.copy()
    out[..., first] = a * cosines - b * sines
    out[..., second] = b * cosines + a * sines
    return out


def rotary_backward(
    gradient: ArrayLike, positions: ArrayLike | None = None, **options: Unpack[RotaryOptions]
) -> Turned:
    """Return the gradient of x from that of `rotary`: a turn by the negative positions.

        d_x = Rᵀ d_out,  and the transpose of a rotation is the rotation back (times amplitude)

    Args:
        gradient: that of the turned q or k, (..., length, head_dim).
        positions: as in `rotary`.
        options: pairing, base, share, scaling and length, as in `rotary`.

    Raises:
        InputError: as in `rotary`.

    Source: Su et al. 2021, section 3.2.2 (the rotation is orthogonal).

    Elsewhere: `conjugate=True` of flash-attn's `apply_rotary`.

    Example:
        >>> x = np.array([[1.0, 2.0, 3.0, 4.0]])
        >>> rotary_backward(rotary(x, [7]), [7]).round(12)
        array([[1., 2., 3., 4.]])
    """
    doing = "taking the gradient of rotary positions"
    gradient = real(doing, "the gradient", gradient, axes=2)
    placed = _placed(doing, positions, gradient.shape)
    if options.get("length") is None:
        options["length"] = _length(doing, placed)
    return rotary(gradient, -placed, **options)


def rotary_table(
    positions: ArrayLike,
    width: int,
    *,
    base: float = 10000.0,
    scaling: RotaryScaling | None = None,
    length: int | None = None,
) -> tuple[
    Float64[np.ndarray, "*positions pairs"],
    Float64[np.ndarray, "*positions pairs"],
]:
    """Return cos and sin of the angle of each position and pair, times the scaling's amplitude.

        cos[p, i] = amplitude · cos(p · frequency[i])        0 ≤ i < width/2

    Args:
        positions: in tokens, real numbers of any shape.
        width: number of features that turn, even.
        base: as in `rotary`.
        scaling: as in `rotary`.
        length: as in `rotary`.

    Raises:
        InputError: an odd width, or positions that are not finite real numbers.

    Source: Su et al. 2021, equation 34.

    Elsewhere: `LlamaRotaryEmbedding.forward` (each number twice: for both features of a pair);
    Meta's `freqs_cis` holds cos + i·sin.

    Example:
        >>> cos, sin = rotary_table([0, 1], 4)
        >>> cos.round(4)
        array([[1.    , 1.    ],
               [0.5403, 1.    ]])
    """
    found = real(_DOING, "positions", positions)
    longest = _length(_DOING, found)
    length = longest if length is None else length
    frequencies = rotary_frequencies(width, base=base, scaling=scaling, length=length)
    angles = found[..., None] * frequencies
    amplitude = 1.0 if scaling is None else scaling.amplitude
    return amplitude * np.cos(angles), amplitude * np.sin(angles)


def rotary_frequencies(
    width: int, *, base: float = 10000.0, scaling: RotaryScaling | None = None, length: int = 0
) -> Float64[np.ndarray, " pairs"]:
    """Return by how many radians each pair of features turns a token.

        frequency[i] = base^(-2i / width)        0 ≤ i < width/2, then as the scaling changes it

    Args:
        width: number of features that turn, even.
        base: as in `rotary`.
        scaling: as in `rotary`.
        length: of the whole sequence so far; 0: not longer than in training.

    Raises:
        InputError: an odd width, a base that is not above 1, or a scaling that doesn't fit.

    Source: Su et al. 2021, section 3.2.2.

    Elsewhere: `inv_freq` in transformers, "theta" in the paper and in torchtune.

    Example:
        >>> rotary_frequencies(4)
        array([1.  , 0.01])
    """
    width = count(_DOING, "the width", width)
    length = count(_DOING, "length", length, least=0)
    if width % 2:
        raise InputError(
            _DOING,
            f"the width {width} is odd, and features turn in pairs",
            "give an even head_dim, or a share of it that is even",
        )
    if number(_DOING, "the base", base) <= 1:
        raise InputError(_DOING, f"the base is {base}", "give a number above 1, usually 10000")
    plain = base ** (-np.arange(width // 2) / (width / 2))
    if scaling is None:
        return plain
    if not isinstance(scaling, RotaryScaling):
        raise InputError(
            _DOING, f"the scaling is {scaling!r}", "give one of the scalings, LinearScaling(4.0)"
        )
    return scaling.frequencies(plain, base, length)


def turned_width(head_dim: int, share: float) -> int:
    """Return how many features of a head turn: ⌊share · head_dim⌋, an even number.

    Raises:
        InputError: a share outside (0, 1], or one that gives no or an odd number.

    Source: GPT-NeoX 2022, section 2.1.1, "Rotary Positional Embeddings" (a quarter turns).

    Elsewhere: `rotary_dim` in GPT-J and flash-attn, `rotary_ndims` in NeoX; rounded down as there.

    Example:
        >>> turned_width(64, 0.25)
        16
    """
    if not 0 < number(_DOING, "the share", share) <= 1:
        raise InputError(
            _DOING, f"the share is {share}", "give a number above 0 and at most 1 (all features)"
        )
    width = int(count(_DOING, "head_dim", head_dim) * share)
    if width == 0 or width % 2:
        raise InputError(
            _DOING,
            f"of head_dim {head_dim} the share {share} turns {width} features, "
            f"{'an odd number' if width else 'none'}",
            "give an even head_dim and a share that gives an even number: features turn in pairs",
        )
    return width


def _placed(
    doing: str, positions: ArrayLike | None, shape: tuple[int, ...]
) -> Float64[np.ndarray, "... length"]:
    """Return positions with the axes of x but the last, where (batch, length) skips those between.

    An axis that is missing in front or between has size 1.
    """
    if positions is None:
        return np.arange(shape[-2], dtype=np.float64)
    found = real(doing, "positions", positions, axes=1)
    leading = shape[:-1]
    if found.ndim == len(("batch", "length")) < len(leading):
        found = found.reshape(len(found), *(1,) * (len(leading) - 2), found.shape[-1])
    pairs = zip(reversed(found.shape[:-1]), reversed(leading[:-1]), strict=False)
    fit(
        doing,
        {"x": shape, "positions": np.shape(positions)},
        f"give positions (length {shape[-2]},), (batch, length), or all axes of x but the last",
        holds=found.shape[-1] == shape[-2]
        and found.ndim <= len(leading)
        and all(size in {1, wanted} for size, wanted in pairs),
    )
    return found


def _length(doing: str, positions: Float64[np.ndarray, " ..."]) -> int:
    """Return how long a sequence with these positions is: the largest + 1."""
    if not np.isfinite(positions).all():
        first = positions[~np.isfinite(positions)][0]
        raise InputError(doing, f"positions hold {first}", "give finite positions")
    return max(int(np.floor(positions.max())) + 1, 0) if positions.size else 0
