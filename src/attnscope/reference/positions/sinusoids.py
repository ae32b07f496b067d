"""Absolute positions as sines and cosines: a table that is computed, not learned.

Three layouts of the same numbers are in use, and mixing them up costs nothing but quality: the
paper's interleaved one, the concatenated one of tensor2tensor, and the latter's other spacing of
the frequencies. They differ here by name.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from attnscope.errors import InputError
from attnscope.reference.given import choice, count, positive, real

__all__ = ["SinusoidalLayout", "Spacing", "sinusoidal", "sinusoidal_at"]

SinusoidalLayout: TypeAlias = Literal["interleaved", "concatenated"]
Spacing: TypeAlias = Literal["open", "closed"]


def sinusoidal(
    length: int,
    width: int,
    *,
    base: float = 10000.0,
    layout: SinusoidalLayout = "interleaved",
    spacing: Spacing = "open",
) -> Float64[np.ndarray, "length width"]:
    """Return the sinusoidal table of positions 0 to length - 1, which is added to the embeddings.

        angle[p, i] = p / base^(2i / width)                 0 ≤ i < width/2, radians
        interleaved:   table[p, 2i] = sin(angle[p, i]),  table[p, 2i + 1] = cos(angle[p, i])
        concatenated:  table[p, i]  = sin(angle[p, i]),  table[p, width/2 + i] = cos(angle[p, i])

    A shift by n positions is a rotation of every (sin, cos) pair by n angles, so that the product
    of two rows depends on their distance alone.

    Args:
        length: number of rows.
        width: number of columns, even; the model's width.
        base: the longest wavelength is nearly 2π · base positions.
        layout: where the cosines stand.
        spacing: "open": exponents 2i / width, the last frequency lies just above 1/base (the
            paper); "closed": exponents i / (width/2 - 1), the last frequency is 1/base itself.

    Raises:
        InputError: an odd width, a base that is not positive, or a layout of another name.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5 (interleaved, open).

    Elsewhere: `PositionalEncoding` of the annotated Transformer and of PyTorch's tutorial
    (interleaved, open); in transformers `create_sinusoidal_positions` of GPT-J and
    `positional_encoding` of CTRL (concatenated, open); tensor2tensor's `get_timing_signal_1d`,
    fairseq's and M2M100's `SinusoidalPositionalEmbedding`, Whisper's `sinusoids` (concatenated,
    closed).

    Example:
        >>> sinusoidal(2, 4).round(4)
        array([[0.    , 1.    , 0.    , 1.    ],
               [0.8415, 0.5403, 0.01  , 1.    ]])
        >>> sinusoidal(2, 4, layout="concatenated").round(4)
        array([[0.    , 0.    , 1.    , 1.    ],
               [0.8415, 0.01  , 0.5403, 1.    ]])
    """
    length = count("making sinusoidal positions", "length", length, least=0)
    return sinusoidal_at(np.arange(length), width, base=base, layout=layout, spacing=spacing)


def sinusoidal_at(
    positions: ArrayLike,
    width: int,
    *,
    base: float = 10000.0,
    layout: SinusoidalLayout = "interleaved",
    spacing: Spacing = "open",
) -> Float64[np.ndarray, "*positions width"]:
    """Return the rows of `sinusoidal` at any positions: shifted, padded, or between two tokens.

    Args:
        positions: real numbers of any shape, in tokens; diffusion models give times.
        width: as in `sinusoidal`.
        base: as in `sinusoidal`.
        layout: as in `sinusoidal`.
        spacing: as in `sinusoidal`.

    Raises:
        InputError: as in `sinusoidal`, or positions that are not real numbers.

    Source: Vaswani et al. 2017, section 3.5.

    Elsewhere: `timestep_embedding` of diffusion models (concatenated; some put the cosines first).

    Example:
        >>> bool((sinusoidal_at([3, 1], 8) == sinusoidal(4, 8)[[3, 1]]).all())
        True
    """
    doing = "making sinusoidal positions"
    choice(doing, "layout", layout, ("interleaved", "concatenated"))
    choice(doing, "spacing", spacing, ("open", "closed"))
    width = count(doing, "width", width)
    if width % 2:
        raise InputError(
            doing,
            f"the width {width} is odd, and each sine has its cosine",
            f"give {width + 1}, or {width - 1} and pad it with a column of zeros",
        )
    positive(doing, "give a positive number, usually 10000", base=base)
    pairs = np.arange(width // 2)
    last = width / 2 if spacing == "open" else max(width / 2 - 1, 1)
    angles = real(doing, "positions", positions)[..., None] / base ** (pairs / last)
    sines, cosines = np.sin(angles), np.cos(angles)
    if layout == "concatenated":
        return np.concatenate([sines, cosines], axis=-1)
    return np.stack([sines, cosines], axis=-1).reshape(*angles.shape[:-1], width)
