from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.errors import InputError
from attnscope.reference import learned_positions, learned_positions_backward
from tests.reference.differences import CLOSE, ROUNDING, slopes


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 3), st.lists(st.integers(0, 5), max_size=9), st.integers(0, 99))
def test_rows_and_gradient_are_those_of_an_embedding(
    offset: int, positions: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    table, gradient = rng.normal(size=(9, 4)), rng.normal(size=(len(positions), 4))
    leaf = torch.tensor(table, requires_grad=True)
    index = np.array(positions, dtype=np.int64)
    looked_up = torch.nn.functional.embedding(torch.tensor(index + offset), leaf)
    looked_up.backward(torch.tensor(gradient))
    np.testing.assert_array_equal(
        learned_positions(table, index, offset=offset), looked_up.detach()
    )
    assert leaf.grad is not None
    found = learned_positions_backward(gradient, index, 9, offset=offset)
    np.testing.assert_allclose(found, leaf.grad, atol=ROUNDING)


def test_the_gradient_is_the_slope() -> None:
    rng = np.random.default_rng(0)
    positions = np.array([[0, 2, 2], [1, 1, 1]])
    along = rng.normal(size=(2, 3, 4))
    (expected,) = slopes(
        lambda table: learned_positions(table, positions), rng.normal(size=(4, 4)), along=along
    )
    found = learned_positions_backward(along, positions, 4)
    np.testing.assert_allclose(found, expected, atol=CLOSE)
    assert not found[3].any()


def test_the_offset_matters() -> None:
    table = np.arange(10.0).reshape(5, 2)
    assert (learned_positions(table, [0], offset=2) == table[2]).all()
    assert learned_positions_backward([[1.0]], [0], 5, offset=2)[2] == 1


@pytest.mark.parametrize(
    ("positions", "offset", "message"),
    [
        ([0, 5], 0, "the position 5 at (1,) asks for row 5 of 5; shorten the sequence"),
        ([-1], 0, "the position -1 at (0,) asks for row -1 of 5"),
        ([[0], [3]], 2, "the position 3 at (1, 0) asks for row 5 of 5 (offset 2)"),
        ([0.0], 0, "positions is of type float64 and shape (1,); give positions as integers"),
        ([True], 0, "positions is of type bool"),
    ],
)
def test_a_row_that_is_not_there_is_named(positions: Any, offset: int, message: str) -> None:
    with pytest.raises(InputError, match=r"^looking up learned positions: ") as caught:
        learned_positions(np.ones((5, 2)), positions, offset=offset)
    assert message in str(caught.value)
    with pytest.raises(InputError, match="taking the gradient of learned positions: "):
        learned_positions_backward(np.ones((*np.shape(positions), 2)), positions, 5, offset=offset)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(InputError, match=r"table \(2, 2, 2\); give a table \(rows, width\)"):
        learned_positions(np.ones((2, 2, 2)), [0])
    with pytest.raises(InputError, match=r"gradient \(3, 2\), positions \(2,\)"):
        learned_positions_backward(np.ones((3, 2)), [0, 1], 4)
    with pytest.raises(InputError, match="table can't be read as an array"):
        learned_positions(torch.ones(2, 2, requires_grad=True), [0])
