"""Absolute positions as a table that is learned: one row a position, looked up.

The lookup itself is nothing; what goes wrong is which row is taken: an offset that a library adds,
a position past the end, a negative one that NumPy would silently count from the end.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from attnscope.errors import InputError
from attnscope.reference.given import count, fit, real, whole

__all__ = ["learned_positions", "learned_positions_backward"]


def learned_positions(
    table: ArrayLike, positions: ArrayLike, *, offset: int = 0
) -> Float64[np.ndarray, "*positions width"]:
    """Return the rows of a learned table, which are added to the embeddings.

        out[..., :] = table[positions[...] + offset, :]

    Args:
        table: (rows, width); its unit is that of the embeddings.
        positions: integers of any shape, in tokens, 0 for the first.
        offset: rows before that of position 0.

    Raises:
        InputError: positions that are not integers, or that the table has no row for.

    Source: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning", section 3.1;
        Devlin et al. 2019 (BERT), section 3.

    Elsewhere: `wpe` in GPT-2 and `position_embeddings` in BERT (offset 0); OPT and BART (offset 2);
    RoBERTa and fairseq (offset `padding_idx + 1`, and positions counted over real tokens alone).

    Example:
        >>> table = np.arange(8.0).reshape(4, 2)
        >>> learned_positions(table, [0, 2])
        array([[0., 1.],
               [4., 5.]])
        >>> learned_positions(table, [0, 1], offset=2)
        array([[4., 5.],
               [6., 7.]])
    """
    doing = "looking up learned positions"
    table = real(doing, "the table", table, axes=2)
    fit(doing, {"table": table.shape}, "give a table (rows, width)", holds=table.ndim == len("rw"))
    return np.asarray(table[_rows(doing, positions, offset, len(table))])


def learned_positions_backward(
    gradient: ArrayLike, positions: ArrayLike, rows: int, *, offset: int = 0
) -> Float64[np.ndarray, "rows width"]:
    """Return the gradient of the table: each row collects from the places that looked it up.

        d_table[r, :] = Σ gradient[..., :] over the places where positions[...] + offset = r

    Args:
        gradient: that of the looked-up rows, (*positions, width).
        positions: as in `learned_positions`.
        rows: number of rows of the table.
        offset: as in `learned_positions`.

    Raises:
        InputError: as in `learned_positions`, or a gradient of another shape.

    Source: the derivative of a sum; rows that no position names get exactly 0.

    Elsewhere: the backward of `torch.nn.Embedding` (with `padding_idx` one row is set to 0).

    Example:
        >>> learned_positions_backward(np.ones((3, 2)), [0, 1, 1], rows=3)
        array([[1., 1.],
               [2., 2.],
               [0., 0.]])
    """
    doing = "taking the gradient of learned positions"
    gradient = real(doing, "the gradient", gradient, axes=1)
    index = _rows(doing, positions, offset, count(doing, "rows", rows))
    fit(
        doing,
        {"gradient": gradient.shape, "positions": index.shape},
        "give a gradient (*positions, width)",
        holds=gradient.shape[:-1] == index.shape,
    )
    out = np.zeros((rows, gradient.shape[-1]))
    np.add.at(out, index, gradient)
    return out


def _rows(doing: str, positions: ArrayLike, offset: int, rows: int) -> np.ndarray:
    index = whole(doing, "positions", positions) + count(doing, "offset", offset, least=-rows)
    outside = (index < 0) | (index >= rows)
    if outside.any():
        first = tuple(int(i) for i in np.argwhere(outside)[0])
        raise InputError(
            doing,
            f"the position {index[first] - offset} at {first} asks for row {index[first]} of {rows}"
            + (f" (offset {offset})" if offset else ""),
            "shorten the sequence, lengthen the table, or correct the offset",
        )
    return index
