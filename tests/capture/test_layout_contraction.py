"""Contractions describe the products of torch."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from attnscope.capture.layout import (
    Contraction,
    contract,
    operands,
)
from tests.capture.layout_follower import run


def contracted(equation: str, left: tuple[int, ...], right: tuple[int, ...]) -> Contraction | None:
    return contract("einsum", (equation,), {}, (left, right))


def test_contraction_of_scores() -> None:
    expected = Contraction(((0, 0, 0), (1, 1, 1)), ((2, 2),), ((2, 3),), ((3, 3),))
    assert contracted("bhqd,bhkd->bhqk", (2, 3, 5, 4), (2, 3, 7, 4)) == expected
    assert contracted("...qd, ...kd -> ...qk", (2, 3, 5, 4), (2, 3, 7, 4)) == expected
    product_of = contract("matmul", (), {}, ((2, 3, 5, 4), (2, 3, 4, 7)))
    assert product_of == Contraction(((0, 0, 0), (1, 1, 1)), ((2, 2),), ((3, 3),), ((3, 2),))


def test_contraction_notes_what_is_absent_or_broadcast() -> None:
    found = contract("matmul", (), {}, ((2, 1, 5, 4), (3, 4, 7)))
    assert found == Contraction(((0, -1, 0), (-1, 0, 1)), ((2, 2),), ((2, 3),), ((3, 1),))


def test_contraction_notes_letters_summed_alone() -> None:
    found = contracted("bqdx,bk->bqk", (2, 5, 4, 3), (2, 7))
    assert found == Contraction(((0, 0, 0),), ((1, 1),), ((1, 2),), (), left_alone=(2, 3))


def test_contraction_of_linear_and_baddbmm() -> None:
    assert contract("linear", (), {}, ((2, 5, 12), (8, 12))) == Contraction(
        (), ((0, 0), (1, 1)), ((0, 2),), ((2, 1),)
    )
    found = contract("baddbmm", (), {}, ((6, 5, 4), (6, 4, 7)))
    assert found == Contraction(((0, 0, 0),), ((1, 1),), ((2, 2),), ((2, 1),))
    assert operands("baddbmm", ("bias", "q", "k"), {"beta": 0}) == ("q", "k")
    assert operands("rmatmul", ("k", "q"), {}) == ("q", "k")


@pytest.mark.parametrize(
    ("equation", "left", "right"),
    [
        ("ii,ij->ij", (3, 3), (3, 4)),
        ("ij,jk,kl->il", (3, 3), (3, 4)),
        ("ij,jk->iz", (3, 3), (3, 4)),
        ("ij,jk->ik", (3, 3), (4, 4)),
        ("ij,jk->ik", (3, 3, 3), (3, 4)),
        ("...j,jk->k", (3, 3), (3, 4)),
    ],
)
def test_equations_that_are_not_understood(
    equation: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    assert contracted(equation, left, right) is None


def evaluated(found: Contraction, left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """The product that a contraction describes, summed naively."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    names = [[next(letters) for _ in range(t.ndim)] for t in (left, right)]
    result = [""] * out.ndim
    for i, j, place in found.batch:
        result[place] = names[0][i] if i >= 0 else names[1][j]
        if i >= 0 and j >= 0:
            names[1][j] = names[0][i]
    for side, free in enumerate((found.left, found.right)):
        for axis, place in free:
            result[place] = names[side][axis]
    for i, j in found.summed:
        names[1][j] = names[0][i]
    equation = f"{''.join(names[0])},{''.join(names[1])}->{''.join(result)}"
    return torch.einsum(equation, left, right)


SHAPES = [(4,), (4, 4), (3, 4, 4), (1, 4, 4), (2, 1, 4, 4), (2, 3, 4, 4)]


@pytest.mark.parametrize(("left", "right"), list(product(SHAPES, SHAPES)))
def test_every_rank_of_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = torch.randn(left, dtype=torch.double), torch.randn(right, dtype=torch.double)
    found = contract("matmul", (a, b), {}, (left, right))
    assert found is not None
    out = a @ b
    torch.testing.assert_close(evaluated(found, a, b, out), out)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("einsum", ("bqhd,bkhd->bhqk", (2, 5, 3, 4), (2, 7, 3, 4))),
        ("einsum", ("b h q d, d k", (2, 3, 5, 4), (4, 7))),
        ("einsum", ("...ij,...jk", (2, 3, 5, 4), (3, 4, 7))),
        ("einsum", ("Ba,aC", (2, 3), (3, 4))),
        ("einsum", ("bij,bjk->ik", (2, 3, 4), (2, 4, 5))),
        ("einsum", ("...d,hd->...h", (2, 3, 4), (5, 4))),
        ("einsum", ("bqd,bkd->bqk", (1, 3, 4), (2, 5, 4))),
        ("tensordot", ((2, 3, 4), (4, 5), 1)),
        ("tensordot", ((2, 3, 4), (4, 3, 5), ([1, 2], [1, 0]))),
        ("tensordot", ((2, 3, 4), (2, 5), ([-3], [0]))),
        ("mm", ((2, 3), (3, 4))),
        ("mv", ((2, 3), (3,))),
        ("dot", ((3,), (3,))),
        ("outer", ((3,), (4,))),
        ("inner", ((2, 3), (4, 3))),
        ("addbmm", ((3, 5), (2, 3, 4), (2, 4, 5))),
        ("linear", ((2, 3, 4), (4,))),
    ],
)
def test_products_are_those_of_torch(name: str, args: tuple[Any, ...]) -> None:
    torch.manual_seed(0)
    is_shape = [isinstance(a, tuple) and isinstance(a[0], int) for a in args]
    given_args = tuple(
        torch.randn(a, dtype=torch.double) if shaped else a
        for a, shaped in zip(args, is_shape, strict=True)
    )
    if name == "addbmm":
        given_args[0].zero_()
    pair = operands(name, given_args, {})
    assert pair is not None
    left, right = pair
    found = contract(name, given_args, {}, (tuple(left.shape), tuple(right.shape)))
    assert found is not None
    out = run(name, given_args, {})
    torch.testing.assert_close(evaluated(found, left, right, out), out)
