"""The two rotary pairings are one mathematics under another order of the features.

Permuting the rows of the q and k projections turns weights made for one pairing into weights for
the other; scores stay the same, because q and k are permuted alike.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from attnscope.errors import InputError
from attnscope.reference.given import choice, count, real
from attnscope.reference.positions.rotary_turning import Pairing, turned_width

__all__ = ["convert_pairing", "pairing_order"]

_DOING = "converting between rotary pairings"


def pairing_order(
    head_dim: int, *, to: Pairing, share: float = 1.0
) -> Int64[np.ndarray, " head_dim"]:
    """Return where each feature of a head comes from when it changes to the other pairing.

        to half:         new[i] = old[2i],  new[i + width/2] = old[2i + 1]
        to interleaved:  new[2i] = old[i],  new[2i + 1] = old[i + width/2]

    `x[..., pairing_order(…)]` is x for the pairing `to`. Features that don't turn stay in place.

    Args:
        head_dim: features of one head.
        to: the pairing to change to, from the other one.
        share: of the features that turn.

    Raises:
        InputError: a pairing of another name, or a share that gives an odd number.

    Source: follows from both definitions, Su et al. 2021, equation 34, and GPT-NeoX 2022.

    Elsewhere: `permute` in the conversion script of Llama in transformers ("half"), `_permute` in
    torchtune and `permute` in llama.cpp ("interleaved").

    Example:
        >>> pairing_order(6, to="half")
        array([0, 2, 4, 1, 3, 5])
        >>> pairing_order(6, to="interleaved")
        array([0, 3, 1, 4, 2, 5])
    """
    choice(_DOING, "the pairing to change to", to, ("half", "interleaved"))
    head_dim = count(_DOING, "head_dim", head_dim)
    width = turned_width(head_dim, share)
    turned = np.arange(width)
    order = turned.reshape(-1, 2).T if to == "half" else turned.reshape(2, -1).T
    return np.concatenate([order.ravel(), np.arange(width, head_dim)])


def convert_pairing(
    weight: ArrayLike, head_dim: int, *, to: Pairing, share: float = 1.0, axis: int = 0
) -> Float64[np.ndarray, " ..."]:
    """Return the weight or bias of a q or k projection for the other pairing.

        new[h · head_dim + i] = old[h · head_dim + order[i]]        each head h for itself

    Convert q and k both; v and the output projection stay as they are. QK-norm gains, (head_dim,),
    are converted in the same way.

    Args:
        weight: (heads · head_dim, width) as in `torch.nn.Linear`, or a bias (heads · head_dim,).
        head_dim: features of one head.
        to: the pairing to change to, from the other one.
        share: of the features that turn.
        axis: along which the heads lie: 0, and 1 for the transposed weights of a Conv1D.

    Raises:
        InputError: an axis that is not a whole number of heads, or as in `pairing_order`.

    Source: as `pairing_order`.

    Elsewhere: as `pairing_order`.

    Example:
        >>> convert_pairing(np.arange(8.0), 4, to="half")
        array([0., 2., 1., 3., 4., 6., 5., 7.])
    """
    weight = real(_DOING, "the weight", weight, axes=1)
    order = pairing_order(head_dim, to=to, share=share)
    axis = count(_DOING, "axis", axis, least=-weight.ndim)
    if not -weight.ndim <= axis < weight.ndim or weight.shape[axis] % head_dim:
        raise InputError(
            _DOING,
            f"axis {axis} of a weight of shape {weight.shape} holds no whole heads of {head_dim}",
            "give the axis along which (heads · head_dim) features lie, and the right head_dim",
        )
    starts = np.arange(0, weight.shape[axis], head_dim)
    return np.asarray(np.take(weight, (starts[:, None] + order).ravel(), axis=axis))
