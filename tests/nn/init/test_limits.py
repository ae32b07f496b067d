"""The limits of uniform and saturated, against drawn scores and against their derivation."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from attnscope.errors import InputError
from attnscope.nn import init
from attnscope.nn.init.limits import near, verdict, verdict_of


def drawn(std: float, keys: int) -> tuple[float, float]:
    """Return the mean share of entropy over drawn rows, and by how much that mean scatters."""
    scores = std * torch.randn(2000, keys, dtype=torch.float64)
    shares = torch.special.entr(scores.softmax(-1)).sum(-1) / math.log(keys)
    return float(shares.mean()), float(shares.std()) / math.sqrt(len(shares))


def drawn_share(std: float, keys: int) -> float:
    return drawn(std, keys)[0]


@pytest.mark.parametrize("keys", [2, 3, 16, 128, 512])
@pytest.mark.parametrize("std", [0.1, 0.46, 1.0, 2.0, 3.0, 5.0, 8.0, 60.0])
def test_the_expected_share_is_the_mean_of_drawn_rows(std: float, keys: int) -> None:
    mean, scatter = drawn(std, keys)
    assert init.expected_share(std, keys) == pytest.approx(mean, abs=5 * scatter)


def test_no_spread_is_all_of_the_entropy_and_more_of_it_is_less() -> None:
    for keys in (2, 50, 5000):
        shares = [init.expected_share(std, keys) for std in (0, 1e-6, 0.3, 1, 3, 10, 49, 51, 1e4)]
        assert shares[0] == pytest.approx(1.0, abs=1e-7)
        assert shares == sorted(shares, reverse=True)
        assert 0 < shares[-1] < 1e-3


def test_small_scores_follow_the_energy_model() -> None:
    keys = 4096
    for std in (0.25, 0.5, 1.0):
        formula = 1 - std**2 / (2 * math.log(keys))
        assert init.expected_share(std, keys) == pytest.approx(formula, abs=0.002)


@pytest.mark.parametrize("keys", [2, 5, 32, 128, 1024])
def test_the_limits_leave_room_between_them(keys: int) -> None:
    assert 0 < init.saturated_below(keys) < init.uniform_above(keys) < 1


@pytest.mark.parametrize("keys", [32, 128, 1024])
def test_what_is_known_of_first_values_is_told_right(keys: int) -> None:
    low, high = init.saturated_below(keys), init.uniform_above(keys)
    told = {std: verdict(drawn_share(std, keys), low, high) for std in (0.2, 0.33, 0.5, 1.0, 2.0)}
    assert told == {0.2: "uniform", 0.33: "uniform", 0.5: "sane", 1.0: "sane", 2.0: "sane"}
    assert verdict(drawn_share(8.0, keys), low, high) == "saturated"
    assert verdict(drawn_share(1.2 * init.critical_std(keys), keys), low, high) == "saturated"
    assert verdict(drawn_share(0.8 * init.critical_std(keys), keys), low, high) == "sane"


def test_uniform_means_nine_tenths_of_the_keys_of_a_long_row() -> None:
    for keys in (1_000, 10_000):
        share = math.log(0.9 * keys) / math.log(keys)
        assert init.uniform_above(keys) == pytest.approx(share, abs=1e-4)


@pytest.mark.parametrize("keys", [2, 4, 16, 256])
def test_the_limits_are_the_same_spread_for_rows_of_every_length(keys: int) -> None:
    low, high = init.saturated_below(keys), init.uniform_above(keys)
    assert verdict(init.expected_share(0.45, keys), low, high) == "uniform"
    assert verdict(init.expected_share(0.47, keys), low, high) == "sane"
    edge = init.critical_std(keys)
    assert verdict(init.expected_share(0.99 * edge, keys), low, high) == "sane"
    assert verdict(init.expected_share(1.01 * edge, keys), low, high) == "saturated"


@pytest.mark.parametrize("keys", [8, 128])
def test_what_is_close_to_a_limit_is_near_the_other_side(keys: int) -> None:
    low, high = init.saturated_below(keys), init.uniform_above(keys)
    stds = (0.3, 0.44, 0.5, 0.7, 0.97 * init.critical_std(keys), 1.05 * init.critical_std(keys))
    told = [near(init.expected_share(std, keys), low, high) for std in stds]
    assert told == [None, "sane", "uniform", None, "saturated", "sane"]


@pytest.mark.parametrize(
    ("heads", "found"),
    [
        ("saturated saturated uniform uniform", "mixed"),
        ("saturated uniform uniform uniform", "mixed"),
        ("saturated saturated saturated uniform", "mixed"),
        ("saturated saturated sane sane", "mixed"),
        ("saturated saturated saturated sane", "saturated"),
        ("saturated sane sane sane", "sane"),
        ("saturated saturated", "saturated"),
        ("uniform sane", "mean"),
        ("uniform uniform", "mean"),
        ("unknown saturated", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_verdict_of_a_call_is_not_the_mean_of_opposites(heads: str, found: str) -> None:
    given: Any = heads.split()
    mean: Any = "mean"
    assert verdict_of(given, mean) == found


def test_no_share_is_no_verdict() -> None:
    assert verdict(math.nan, 0.4, 0.9) == "unknown"


@pytest.mark.parametrize("keys", [0, 1])
def test_one_key_leaves_nothing_to_choose(keys: int) -> None:
    with pytest.raises(InputError, match=f"{keys} visible keys"):
        init.critical_std(keys)


@pytest.mark.parametrize("keys", [2.5, "2", True, None])
def test_keys_are_counted_in_whole_numbers(keys: Any) -> None:
    for function in (init.critical_std, init.uniform_above, init.saturated_below):
        with pytest.raises(InputError, match=r"keys is .*; give a whole number"):
            function(keys)


@pytest.mark.parametrize("std", [-1.0, math.nan, math.inf, "1", None])
def test_a_spread_is_a_number_from_zero_on(std: Any) -> None:
    with pytest.raises(InputError, match="std is "):
        init.expected_share(std, 8)
