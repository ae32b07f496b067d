"""The limits of uniform and saturated, against drawn scores and against their derivation."""

from __future__ import annotations

import math

import pytest
import torch

from attnscope.errors import InputError
from attnscope.nn import init
from attnscope.nn.init.limits import verdict


def drawn_share(std: float, keys: int) -> float:
    scores = std * torch.randn(2000, keys, dtype=torch.float64)
    return float(torch.special.entr(scores.softmax(-1)).sum(-1).mean()) / math.log(keys)


@pytest.mark.parametrize("keys", [32, 128, 512])
@pytest.mark.parametrize("part", [0.05, 0.15, 0.4, 0.7, 1.0])
def test_the_expected_share_is_that_of_drawn_scores(part: float, keys: int) -> None:
    std = part * init.critical_std(keys)
    assert init.expected_share(std, keys) == pytest.approx(drawn_share(std, keys), abs=0.03)


def test_past_saturation_the_typical_row_is_below_the_mean() -> None:
    assert init.expected_share(8.0, 128) < drawn_share(8.0, 128) < init.saturated_below(128)


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


def test_uniform_means_nine_tenths_of_the_keys() -> None:
    keys = 100
    share = math.log(90) / math.log(keys)
    assert init.uniform_above(keys) == pytest.approx(share)


def test_no_share_is_no_verdict() -> None:
    assert verdict(math.nan, 0.4, 0.9) == "unknown"


@pytest.mark.parametrize("keys", [0, 1])
def test_one_key_leaves_nothing_to_choose(keys: int) -> None:
    with pytest.raises(InputError, match=f"{keys} visible keys"):
        init.critical_std(keys)
