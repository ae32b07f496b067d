"""Token embeddings and absolute positions, against their formulas."""

from __future__ import annotations

import math

import pytest
import torch

from attnscope import reference
from attnscope.errors import InputError
from attnscope.nn import LearnedPositions, SinusoidalPositions, TokenEmbedding, sinusoidal_table


@pytest.mark.parametrize("base", [100.0, 10000.0])
def test_the_table_follows_the_paper(base: float) -> None:
    width = 12
    table = sinusoidal_table(torch.arange(50), width, base=base)
    for position in (0, 1, 17, 49):
        for i in range(width // 2):
            angle = position / base ** (2 * i / width)
            assert table[position, 2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_concatenated_table_holds_the_same_columns() -> None:
    table = sinusoidal_table(torch.arange(9), 8)
    other = sinusoidal_table(torch.arange(9), 8, layout="concatenated")
    assert torch.equal(other, torch.cat([table[:, 0::2], table[:, 1::2]], -1))


def test_late_positions_keep_their_fraction() -> None:
    late = 1_000_003
    table = sinusoidal_table(torch.tensor([late]), 4)
    assert float(table[0, 2]) == pytest.approx(math.sin(late / 100), abs=1e-6)


def test_the_table_is_the_reference_s() -> None:
    own = sinusoidal_table(torch.arange(30), 16)
    assert torch.allclose(own.double(), torch.from_numpy(reference.sinusoidal(30, 16)), atol=1e-6)


def test_sinusoidal_positions_are_added_per_sample() -> None:
    module = SinusoidalPositions(6)
    positions = torch.tensor([[0, 1, 2], [5, 6, 7]])
    out = module(torch.zeros(2, 3, 6), positions)
    assert torch.equal(out, sinusoidal_table(positions, 6))
    assert "base=10000" in repr(module)


def test_learned_positions_are_the_rows_of_their_table() -> None:
    module = LearnedPositions(8, 4)
    out = module(torch.zeros(1, 3, 4), torch.tensor([[7, 0, 2]]))
    assert torch.equal(out[0], module.positions.weight[[7, 0, 2]])


def test_a_position_behind_the_table_is_refused() -> None:
    with pytest.raises(InputError, match="position 8; the table ends at 7"):
        LearnedPositions(8, 4)(torch.zeros(1, 9, 4), torch.arange(9)[None])


def test_an_embedding_is_factor_times_rows_plus_positions() -> None:
    embed = TokenEmbedding(10, 4, SinusoidalPositions(4), factor=3.0)
    ids = torch.tensor([[1, 9]])
    expected = embed.tokens.weight[ids] * 3.0 + sinusoidal_table(torch.arange(2), 4)
    assert torch.allclose(embed(ids), expected)


def test_dropout_acts_on_the_sum() -> None:
    embed = TokenEmbedding(10, 4, SinusoidalPositions(4), dropout=1.0)
    ids = torch.tensor([[1, 9]])
    assert not embed(ids).any()
    assert embed.eval()(ids).any()


@pytest.mark.parametrize("wrong", [-100, 10])
def test_an_id_out_of_the_vocabulary_is_refused(wrong: int) -> None:
    with pytest.raises(InputError, match=f"the id {wrong}, of a vocabulary of 10"):
        TokenEmbedding(10, 4)(torch.tensor([[1, wrong]]))


@pytest.mark.parametrize(
    ("arguments", "found"),
    [({"width": 5}, "width=5"), ({"width": 4, "layout": "mixed"}, "layout='mixed'")],
)
def test_what_is_no_table_is_refused(arguments: dict[str, object], found: str) -> None:
    with pytest.raises(InputError) as error:
        SinusoidalPositions(**arguments)  # type: ignore[arg-type]
    assert error.value.found == found
