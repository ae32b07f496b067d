from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attnscope.calls.normalisers import NORMALISERS
from attnscope.capture.reading.normaliser import read_normaliser

INF = math.inf
LOWER = torch.ones(7, 7, dtype=torch.bool).tril()


def scores(dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(2, 3, 7, 7) * 2).to(dtype)


@pytest.mark.parametrize("hidden", [None, -INF, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("name", sorted(NORMALISERS))
def test_every_normaliser_is_named(name: str, hidden: float | None) -> None:
    given = scores() if hidden is None else scores().masked_fill(~LOWER, hidden)
    given[..., 0, 0] = 1.0  # so that relu-normalised has a positive score in the first row
    found = read_normaliser(given, NORMALISERS[name](given, -1))
    assert (found.name, found.axis, found.factor) == (name, "keys", 1.0)


@pytest.mark.parametrize(
    ("axis", "dim"), [("keys", -1), ("queries", -2), ("heads", 1), ("batch", 0)]
)
def test_the_axis_of_a_softmax_is_named(axis: str, dim: int) -> None:
    given = scores()
    found = read_normaliser(given, given.softmax(dim))
    assert (found.name, found.axis) == ("softmax", axis)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["softmax", "softmax-off-by-one", "sigmoid", "relu"])
def test_short_types_are_named_whatever_was_rounded(name: str, dtype: torch.dtype) -> None:
    given = scores(dtype)
    assert read_normaliser(given, NORMALISERS[name](given, -1)).name == name
    upcast = NORMALISERS[name](given.float(), -1).to(dtype)
    assert read_normaliser(given, upcast).name == name


def test_ways_to_write_a_softmax_are_one() -> None:
    given = scores().masked_fill(~LOWER, -INF)
    shifted = (given - given.amax(-1, keepdim=True)).exp()
    for weights in (shifted / shifted.sum(-1, keepdim=True), given.log_softmax(-1).exp()):
        assert read_normaliser(given, weights).name == "softmax"


def test_columns_of_sinks_may_be_cut_off() -> None:
    given = scores()
    columns = torch.cat([given, torch.zeros(2, 3, 7, 1)], -1)
    weights = columns.softmax(-1)
    assert read_normaliser(columns, weights).name == "softmax"
    assert read_normaliser(columns, weights[..., :7]).name == "softmax"


def test_a_sink_that_is_no_column_is_solved_for() -> None:
    given, sinks = scores(), torch.tensor([0.5, -1.0, 2.0]).view(1, 3, 1, 1)
    weights = given.exp() / (sinks.exp() + given.exp().sum(-1, keepdim=True))
    found = read_normaliser(given, weights)
    assert found.name == "softmax"
    assert found.sinks is not None
    assert torch.allclose(found.sinks, sinks.double(), atol=1e-4)


def test_a_factor_is_read_beside_the_function() -> None:
    given = scores()
    found = read_normaliser(given, given.relu() / 7)
    assert found.name == "relu"
    assert found.factor == pytest.approx(1 / 7, rel=1e-6)
    assert read_normaliser(given, given.relu().square() / 7).name == "relu-squared"


@pytest.mark.parametrize(("value", "name"), [(math.nan, "nan"), (0.0, "zero"), (1 / 7, "uniform")])
def test_rows_that_see_nothing_are_judged_apart(value: float, name: str) -> None:
    given = scores()
    given[1, :, 2] = -INF
    weights = given.softmax(-1)
    weights[1, :, 2] = value
    found = read_normaliser(given, weights)
    assert (found.name, found.empty_row) == ("softmax", name)


@pytest.mark.parametrize("temperature", [1.1, 0.5])
def test_what_matches_nothing_is_unknown(temperature: float) -> None:
    given = scores()
    assert read_normaliser(given, (given / temperature).softmax(-1)).name == "unknown"


def test_a_row_of_other_weights_is_enough_to_be_unknown() -> None:
    given = scores()
    weights = given.softmax(-1)
    weights[1, 2, 3] = weights[1, 2, 3].flip(-1)
    assert read_normaliser(given, weights).name == "unknown"
    given[0, 0, 0] = -INF
    weights = given.softmax(-1)
    weights[0, 0, 0] = torch.arange(7.0)
    assert read_normaliser(given, weights).name == "unknown"
