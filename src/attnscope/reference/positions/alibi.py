"""ALiBi: no position enters q or k; each head subtracts from its scores by distance.

The slopes are what goes wrong: the paper has a rule for powers of two and another for the rest,
and a slope with the other sign prefers what is far away.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from attnscope.reference.given import choice, count, fit, positive, real
from attnscope.reference.positions.distance import real_distance

__all__ = ["AlibiForm", "alibi_bias", "alibi_bias_backward", "alibi_slopes"]

AlibiForm: TypeAlias = Literal["causal", "symmetric"]

_DOING = "making the ALiBi bias"


def alibi_slopes(heads: int, *, steepness: float = 8.0) -> Float64[np.ndarray, " heads"]:
    """Return the slope of each head, in units of score a token.

        heads = 2^n:   slope[h] = 2^(-steepness · (h + 1) / heads)              0 ≤ h < heads
        otherwise:     the slopes of the next smaller power of two, then every other slope,
                       beginning with the first, of twice that power, until there are enough

    Args:
        heads: number of query heads.
        steepness: the last slope of a power of two is 2^-steepness.

    Raises:
        InputError: not a positive number of heads, or a steepness that is not positive.

    Source: Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input
        Length Extrapolation", section 3; the rule for other numbers is in its code, `get_slopes`.

    Elsewhere: `build_alibi_tensor` of BLOOM and Falcon, `build_mpt_alibi_tensor` of MPT (steepness:
    `alibi_bias_max`) in transformers; `alibi_slopes` of flash-attn.

    Example:
        >>> alibi_slopes(4)
        array([0.25      , 0.0625    , 0.015625  , 0.00390625])
        >>> alibi_slopes(3)
        array([0.0625    , 0.00390625, 0.25      ])
    """
    heads = count("making ALiBi slopes", "heads", heads)
    positive("making ALiBi slopes", steepness=steepness)
    power = 1 << (heads.bit_length() - 1)
    slopes = _slopes_of_power(power, steepness)
    extra = _slopes_of_power(2 * power, steepness)[::2]
    return np.concatenate([slopes, extra])[:heads]


def alibi_bias(
    slopes: ArrayLike,
    query_positions: ArrayLike,
    key_positions: ArrayLike,
    *,
    form: AlibiForm = "causal",
) -> Float64[np.ndarray, "*batch heads queries keys"]:
    """Return what ALiBi adds to the scaled scores.

        causal:     bias[h, i, j] = -slope[h] · (position i - position j)
        symmetric:  bias[h, i, j] = -slope[h] · |position i - position j|

    The causal form rewards later keys: it is meant to go with a causal mask, which it is not.

    Args:
        slopes: (heads,), such as `alibi_slopes(heads)`.
        query_positions: (*batch, queries), in tokens.
        key_positions: (*batch, keys), in tokens.
        form: for keys on one side or on both.

    Raises:
        InputError: slopes that are not one axis, positions that don't fit, or another form.

    Source: Press et al. 2022, section 3 (causal); the symmetric form is the one that its authors'
        code gives for encoders.

    Elsewhere: BLOOM and MPT add slope · position of the key alone, which differs from the causal
    form by one number a row and so gives the same weights; flash-attn has the symmetric form
    (equal to the causal one under a causal mask), with its queries at the end of the keys.

    Example:
        >>> alibi_bias([0.5], [0, 1, 2], [0, 1, 2])[0]
        array([[ 0. ,  0.5,  1. ],
               [-0.5,  0. ,  0.5],
               [-1. , -0.5,  0. ]])
        >>> alibi_bias([0.5], [2], [0, 1, 2], form="symmetric")[0]
        array([[-1. , -0.5,  0. ]])
    """
    slopes = real(_DOING, "slopes", slopes)
    fit(_DOING, {"slopes": slopes.shape}, "give slopes (heads,)", holds=slopes.ndim == 1)
    nearness = _nearness(_DOING, query_positions, key_positions, form)
    return np.asarray(slopes[:, None, None] * nearness[..., None, :, :])


def alibi_bias_backward(
    gradient: ArrayLike,
    query_positions: ArrayLike,
    key_positions: ArrayLike,
    *,
    form: AlibiForm = "causal",
) -> Float64[np.ndarray, " heads"]:
    """Return the gradient of the slopes, for those who learn them.

        d_slope[h] = -Σ gradient[..., h, i, j] · (position i - position j), or its absolute value

    Args:
        gradient: that of the bias, (*batch, heads, queries, keys); it may have more leading axes
            than the positions.
        query_positions: as in `alibi_bias`.
        key_positions: as in `alibi_bias`.
        form: as in `alibi_bias`.

    Raises:
        InputError: as in `alibi_bias`, or a gradient of another shape.

    Source: the derivative of Press et al. 2022, section 3, where slopes are fixed.

    Elsewhere: `LearnedAlibiPositionalBias` of x-transformers.

    Example:
        >>> alibi_bias_backward(np.ones((1, 1, 3)), [2], [0, 1, 2])
        array([-3.])
    """
    doing = "taking the gradient of ALiBi slopes"
    gradient = real(doing, "the gradient", gradient, axes=3)
    nearness = _nearness(doing, query_positions, key_positions, form)
    fit(
        doing,
        {"gradient": gradient.shape, "distances": nearness.shape},
        "give a gradient (*batch, heads, queries, keys)",
        holds=gradient.shape[-2:] == nearness.shape[-2:]
        and gradient.ndim > nearness.ndim
        and gradient.shape[gradient.ndim - nearness.ndim - 1 : -3] == nearness.shape[:-2],
    )
    product = gradient * nearness[..., None, :, :]
    return np.asarray(product.sum(axis=(*range(gradient.ndim - 3), -2, -1)))


def _slopes_of_power(heads: int, steepness: float) -> Float64[np.ndarray, " heads"]:
    return 2.0 ** (-steepness * np.arange(1, heads + 1) / heads)


def _nearness(
    doing: str, query_positions: ArrayLike, key_positions: ArrayLike, form: AlibiForm
) -> Float64[np.ndarray, "*batch queries keys"]:
    """Return 0 where query and key stand together, and 1 less for each token further back."""
    choice(doing, "the form", form, ("causal", "symmetric"))
    distance = real_distance(doing, query_positions, key_positions)
    return distance if form == "causal" else np.minimum(distance, -distance) + 0.0
