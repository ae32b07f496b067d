"""A linear projection and its backward, and the four projections around one attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from attnscope.errors import InputError
from attnscope.reference.axes import AnyFloat, Matrix, Tokens, Vector
from attnscope.reference.given import real

__all__ = ["AttentionWeights", "project", "project_backward"]


@dataclass(frozen=True, slots=True, eq=False)
class AttentionWeights:
    """The projections of one attention, each (out, in) as in ``torch.nn.Linear``.

    q: (heads·head_dim, width). k: (kv_heads·head_dim, width of the keys).
    v: (kv_heads·value_dim, width of the values). output: (width, heads·value_dim), or None where
    the heads side by side are the output. Gradients come in the same form. A layer that keeps
    (in, out), as ``Conv1D`` of GPT-2 does, gives its transpose.
    """

    q: Matrix
    k: Matrix
    v: Matrix
    output: Matrix | None = None
    q_bias: Vector | None = None
    k_bias: Vector | None = None
    v_bias: Vector | None = None
    output_bias: Vector | None = None

    @classmethod
    def from_packed(
        cls,
        packed: Matrix,
        bias: Vector | None = None,
        output: Matrix | None = None,
        output_bias: Vector | None = None,
    ) -> Self:
        """Cut one weight of q, k and v, a third each, as ``torch.nn.MultiheadAttention`` packs it.

        packed is its ``in_proj_weight`` (3·width, width), bias its ``in_proj_bias``.

        Raises:
            InputError: the rows are no multiple of 3, or the bias has not one number for each.

        >>> AttentionWeights.from_packed(np.arange(3.0)[:, None]).k
        array([[1.]])
        """
        doing = "cutting a packed projection"
        packed = real(doing, "the weight", packed, axes=1)
        if packed.shape[0] % 3:
            raise InputError(
                doing,
                f"a weight of shape {packed.shape}",
                "give (3·width, width): the rows of q, then of k, then of v",
            )
        q, k, v = np.split(packed, 3)
        q_bias, k_bias, v_bias = (
            (None, None, None) if bias is None else _thirds(doing, bias, len(packed))
        )
        return cls(q, k, v, output, q_bias, k_bias, v_bias, output_bias)


def _thirds(doing: str, bias: Vector, rows: int) -> tuple[Vector, Vector, Vector]:
    given = real(doing, "the bias", bias)
    if given.shape != (rows,):
        raise InputError(
            doing, f"a bias of shape {given.shape} for {rows} rows", "give one number for each row"
        )
    q, k, v = np.split(given, 3)
    return q, k, v


def project(x: Tokens, weight: Matrix, bias: Vector | None, name: str) -> Tokens:
    """Return x Wᵀ + b: (..., length, in) to (..., length, out).

    `name` is that of the projection, for the error. Elsewhere: ``F.linear``.

    Raises:
        InputError: the width of x is not that of the weight, or the bias has another length.

    >>> project(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), np.array([0.5]), "q")
    array([[11.5]])
    """
    doing = f"projecting {name}"
    x, weight = real(doing, "x", x), real(doing, "the weight", weight)
    if x.ndim < 2 or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        raise InputError(
            doing,
            f"an input of shape {x.shape} and a weight of shape {weight.shape}",
            "give (..., length, width) and a weight (out, width), as torch.nn.Linear keeps it",
        )
    product = np.asarray(x @ weight.T)
    if bias is None:
        return product
    bias = real(doing, "the bias", bias)
    if bias.shape != weight.shape[:1]:
        raise InputError(
            doing,
            f"a bias of shape {bias.shape} for a weight of shape {weight.shape}",
            "give one number for each row of the weight",
        )
    return np.asarray(product + bias)


def project_backward(gradient: Tokens, x: Tokens, weight: Matrix) -> tuple[Tokens, Matrix, Vector]:
    """Return the gradients of x, weight and bias: ∂y W, ∂yᵀ x and Σ ∂y over all tokens.

    >>> of_x, of_weight, of_bias = project_backward(np.ones((1, 1)), np.ones((1, 2)), np.eye(1, 2))
    >>> of_x, of_weight, of_bias
    (array([[1., 0.]]), array([[1., 1.]]), array([1.]))
    """
    rows, inputs = flat(gradient), flat(np.asarray(x, dtype=np.float64))
    return np.asarray(gradient @ weight), rows.T @ inputs, rows.sum(0)


def flat(x: AnyFloat) -> AnyFloat:
    """Return all tokens of all samples below each other: (tokens, width).

    >>> flat(np.zeros((2, 3, 4))).shape
    (6, 4)
    """
    return x.reshape(-1, x.shape[-1])
