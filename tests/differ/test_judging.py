"""Entries are compared one by one, in float64, against a limit from arithmetic."""

from __future__ import annotations

import pytest
import torch

from attnscope.differ.walk.judging import Tolerance, compare, finite

FLOAT32 = Tolerance.of({torch.float32})


def test_a_single_wrong_entry_of_many_is_a_difference() -> None:
    expected = torch.randn(2, 4, 64, 64, dtype=torch.float64)
    actual = expected.clone()
    actual[1, 2, 30, 7] += 1e-4
    gap = compare(actual, expected, FLOAT32)
    assert not gap.equal
    assert gap.index == (1, 2, 30, 7)
    assert gap.values == (float(actual[1, 2, 30, 7]), float(expected[1, 2, 30, 7]))


def test_a_few_roundings_of_float32_are_none() -> None:
    expected = torch.randn(50, 60, dtype=torch.float64)
    assert compare(expected.float().double(), expected, FLOAT32).equal
    assert not compare(expected * (1 + 1e-4), expected, FLOAT32).equal


def test_models_in_float64_are_held_to_float64() -> None:
    expected = torch.randn(5, 6, dtype=torch.float64)
    tolerance = Tolerance.of({torch.float64})
    assert not compare(expected.float().double(), expected, tolerance).equal
    assert compare(expected * (1 + 1e-15), expected, tolerance).equal


def test_equal_infinities_and_nan_are_equal_and_others_are_not() -> None:
    inf, nan = float("inf"), float("nan")
    expected = torch.tensor([1.0, -inf, nan, inf])
    assert compare(expected.clone(), expected, FLOAT32).equal
    for changed in ([1.0, 0.0, nan, inf], [1.0, -inf, 0.0, inf], [nan, -inf, nan, inf]):
        gap = compare(torch.tensor(changed), expected, FLOAT32)
        assert gap.verdict == "non-finite"
        assert gap.largest == inf


def test_other_shapes_and_empty_tensors() -> None:
    assert compare(torch.ones(2, 3), torch.ones(3, 2), FLOAT32).verdict == "shape"
    assert compare(torch.ones(0, 3), torch.ones(0, 3), FLOAT32).equal


def test_rows_with_an_infinite_limit_do_not_count() -> None:
    expected = torch.zeros(3, 4)
    actual = expected.clone()
    actual[1] = float("nan")
    limit = torch.tensor([[1e-6], [float("inf")], [1e-6]])
    assert compare(actual, expected, FLOAT32, limit).equal


def test_a_factor_widens_the_limit() -> None:
    expected = torch.ones(4, dtype=torch.float64)
    actual = expected + 1e-5
    assert not compare(actual, expected, FLOAT32).equal
    assert compare(actual, expected, Tolerance.of({torch.float32}, factor=100)).equal


@pytest.mark.parametrize(("number", "written"), [(1.5, 1.5), (float("inf"), "inf")])
def test_infinite_numbers_are_written_as_text(number: float, written: object) -> None:
    assert finite(number) == written
