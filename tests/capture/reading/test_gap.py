from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnscope.capture.reading.gap import low_cutoff

STEPS = torch.arange(4096.0)
LOWEST = torch.finfo(torch.float32).min


@pytest.mark.parametrize(
    "bias",
    [
        torch.zeros(4),
        torch.tensor([0.0, -49.0]),
        -0.5 * STEPS,
        -(0.84 * STEPS),
        -100.0 * STEPS[:64],
        -(STEPS[:64] ** 2),
        torch.linspace(-60, 10, 32),
        torch.tensor([float("-inf"), 0.0, 1.0]),
        torch.tensor([float("nan"), float("-inf")]),
    ],
)
def test_values_that_get_there_gradually_stay(bias: Tensor) -> None:
    assert low_cutoff(bias) is None


@pytest.mark.parametrize("low", [-100.0, -1e4, -1e9, LOWEST])
def test_a_cluster_far_below_is_cut_off(low: float) -> None:
    bias = torch.linspace(-8, 8, 50)
    cutoff = low_cutoff(torch.cat([bias, bias + low]))
    assert cutoff is not None
    assert (bias + low).max().item() < cutoff < bias.min().item()


def test_masks_that_were_summed_are_cut_off_together() -> None:
    cutoff = low_cutoff(torch.tensor([0.0, -1e9, -2e9]))
    assert cutoff is not None
    assert -1e9 < cutoff < 0


def test_where_all_are_low_all_are_cut_off() -> None:
    assert low_cutoff(torch.tensor([-1e9, -1e9])) == float("inf")
