from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attnscope.errors import InputError
from attnscope.reference.given import choice, count, fit, kept, real, whole


@pytest.mark.parametrize(
    "value",
    [
        [1, 2],
        (1.0, 2.0),
        np.array([1, 2], np.float32),
        torch.tensor([1.0, 2.0]),
        np.array([1, 2], np.int8),
    ],
)
def test_whatever_holds_real_numbers_is_taken_as_float64(value: Any) -> None:
    found = real("reading", "x", value)
    assert found.dtype == np.float64
    assert found.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("value", [[1, 2], np.array([1, 2], np.uint8), torch.tensor([1, 2])])
def test_whatever_holds_integers_is_taken_as_int64(value: Any) -> None:
    found = whole("reading", "x", value)
    assert found.dtype == np.int64
    assert found.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("function", "value", "message"),
    [
        (real, [True], "x is of type bool and shape (1,); give x as real numbers"),
        (real, [1j], "x is of type complex128"),
        (real, "text", "x is of type <U4 and shape ()"),
        (real, [[1], [1, 2]], "x can't be read as an array (setting an array element"),
        (real, torch.ones(1, requires_grad=True), "(of a tensor: .detach().double().numpy())"),
        (real, None, "x is of type object"),
        (whole, [1.0], "x is of type float64 and shape (1,); give x as integers"),
        (whole, [True], "x is of type bool"),
    ],
)
def test_what_is_no_such_number_is_named(function: Any, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=r"^reading: ") as caught:
        function("reading", "x", value)
    assert message in str(caught.value)


@pytest.mark.parametrize("function", [real, whole])
def test_too_few_axes_are_named(function: Any) -> None:
    assert function("reading", "x", [[1]], axes=2).shape == (1, 1)
    with pytest.raises(InputError, match=r"x has the shape \(1,\); give it at least 2 axes"):
        function("reading", "x", [1], axes=2)


def test_counts_choices_and_shapes() -> None:
    assert count("reading", "n", np.int64(3)) == 3
    assert count("reading", "n", 0, least=0) == 0
    for value, message in ((0, "n is 0; give at least 1"), (2.0, "n is 2.0; give a whole number")):
        with pytest.raises(InputError, match=message):
            count("reading", "n", value)
    choice("reading", "way", "up", ("up", "down"))
    with pytest.raises(InputError, match="way is 'left'; give 'up' or 'down'"):
        choice("reading", "way", "left", ("up", "down"))
    fit("reading", {"a": (1,)}, "rule", holds=True)
    with pytest.raises(InputError, match=r"reading: the shapes are a \(1,\), b \(2, 3\); rule"):
        fit("reading", {"a": (1,), "b": (2, 3)}, "rule", holds=False)


def test_which_keys_are_kept() -> None:
    assert kept("reading", None, (2, 3)).tolist() == [True] * 3
    keep = np.array([[True, False, True]])
    assert kept("reading", keep, (2, 3)) is keep
    with pytest.raises(InputError, match=r"type int64; give booleans, True = a real token"):
        kept("reading", [1, 0, 1], (2, 3))
    for wrong in (np.ones(2, bool), np.ones((3, 3), bool), np.ones((1, 2, 3), bool), np.True_):
        with pytest.raises(InputError, match=r"keep \(.*\), keys \(2, 3\)"):
            kept("reading", wrong, (2, 3))
