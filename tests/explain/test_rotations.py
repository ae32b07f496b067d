from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnscope.explain.kinds.around.sinusoids import Sinusoid, read_sinusoid
from attnscope.explain.reading.rotations import PAIRINGS, Rotation, pairs_of, read_rotation

SLACK = 1e-9


def rotation(pairing: str, width: int, head_dim: int, base: float, begin: int = 0) -> Rotation:
    steps = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = (torch.arange(9, dtype=torch.float64) + begin)[:, None] * steps
    turns = torch.polar(torch.ones_like(angles), angles)[None]
    return Rotation(pairing, width, 0, head_dim, turns)


def some(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


@settings(max_examples=40, deadline=None)
@given(
    pairing=st.sampled_from(PAIRINGS),
    pairs=st.integers(2, 8),
    left=st.integers(0, 3),
    base=st.sampled_from([50.0, 1e3, 1e4, 5e5, 1e6]),
    begin=st.integers(-5, 20),
)
def test_what_was_turned_is_read(
    pairing: str, pairs: int, left: int, base: float, begin: int
) -> None:
    made = rotation(pairing, 2 * pairs, 2 * (pairs + left), base, begin)
    before = some(2, 3, 9, made.head_dim)
    found = read_rotation(before, made.apply(before), SLACK)
    assert found is not None
    assert (found.pairing, found.width) == (pairing, 2 * pairs)
    assert found.base is not None
    assert math.isclose(found.base, base, rel_tol=1e-3)
    assert found.steps is not None
    assert found.shift(found.steps) == begin
    assert torch.allclose(found.apply(before), made.apply(before))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_lengths_are_kept_and_pairs_cover_every_feature_once(pairing: str) -> None:
    before = some(2, 3, 9, 12)
    after = rotation(pairing, 8, 12, 1e4).apply(before)
    assert torch.allclose(after.norm(dim=-1), before.norm(dim=-1))
    assert torch.cat(pairs_of(pairing, 8)).sort().values.tolist() == list(range(8))


def test_other_numbers_are_no_rotation() -> None:
    before = some(2, 3, 9, 8)
    assert read_rotation(before, before.flip(-1), SLACK) is None
    assert read_rotation(before, before + 1, SLACK) is None
    assert read_rotation(before, before, SLACK) is None


def test_a_stretch_beside_the_turn_is_read() -> None:
    before = some(2, 3, 9, 8)
    found = read_rotation(before, 1.25 * rotation("half", 8, 8, 1e4).apply(before), SLACK)
    assert found is not None
    assert found.stretch == 1.25


def test_positions_of_each_sample_are_read() -> None:
    before, made = some(2, 3, 9, 8), rotation("half", 8, 8, 1e4)
    steps = made.steps
    assert steps is not None
    positions = torch.stack((torch.arange(9), torch.arange(9).sub(4).clamp(min=0)))
    found = read_rotation(before, made.at(positions, steps).apply(before), SLACK)
    assert found is not None
    read = found.positions(steps)
    assert read is not None
    assert torch.equal(read, positions.float())


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("base", [100.0, 1e4])
def test_a_table_of_positions_is_read(layout: str, base: float, *, swapped: bool) -> None:
    made = Sinusoid(layout, swapped, base, 8, 1.0)
    found = read_sinusoid(made.table(12, 16))
    assert found is not None
    assert found.is_like(made)


def test_the_spread_of_tensor2tensor_is_told_apart_by_a_round_base() -> None:
    made = Sinusoid("concatenated", swapped=False, base=1e4, spread=7)
    assert read_sinusoid(made.table(12, 16)) == made
    assert read_sinusoid(some(12, 16)) is None


def test_tokens_of_zeros_say_nothing_of_the_others() -> None:
    made = rotation("half", 8, 8, 1e4)
    before = some(2, 3, 9, 8)
    before[0, :, :4] = 0  # padding of one sample
    before[:, :, 7] = 0  # and of both
    found = read_rotation(before, made.apply(before), SLACK)
    assert found is not None
    assert found.base == 1e4
    assert torch.allclose(found.turns, made.turns)


def test_zeros_alone_are_no_rotation() -> None:
    assert read_rotation(torch.zeros(2, 3, 9, 8), torch.zeros(2, 3, 9, 8), SLACK) is None
