"""How tokens are chosen and sequences extended."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnscope.errors import InputError
from attnscope.nn import Sampling
from attnscope.nn.generation import extend

LOGITS = torch.tensor([[0.0, 3.0, 1.0, 2.0], [5.0, 0.0, 0.0, 4.0]])


def draws(sampling: Sampling, times: int = 4000) -> Tensor:
    many = LOGITS[:1].expand(times, -1)
    return torch.bincount(sampling.choose(many), minlength=4) / times


def test_temperature_zero_is_the_likeliest() -> None:
    assert Sampling().choose(LOGITS).tolist() == [1, 0]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax_at_a_temperature(temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    found = draws(Sampling(temperature, generator=generator))
    assert torch.allclose(found, (LOGITS[0] / temperature).softmax(-1), atol=0.03)


def test_top_k_draws_from_the_k_likeliest_alone() -> None:
    found = draws(Sampling(1.0, top_k=2, generator=torch.Generator().manual_seed(0)))
    expected = LOGITS[0].masked_fill(LOGITS[0] < 2, -torch.inf).softmax(-1)
    assert torch.allclose(found, expected, atol=0.03)
    assert found[0] == found[2] == 0
    assert Sampling(1.0, top_k=1).choose(LOGITS).tolist() == [1, 0]


def test_a_top_k_beyond_the_vocabulary_is_all_of_it() -> None:
    first, second = (
        Sampling(1.0, top_k=k, generator=torch.Generator().manual_seed(3)) for k in (None, 99)
    )
    assert torch.equal(draws(first), draws(second))


def test_a_generator_leaves_the_global_one_alone() -> None:
    before = torch.get_rng_state()
    Sampling(1.0, generator=torch.Generator().manual_seed(0)).choose(LOGITS)
    assert torch.equal(torch.get_rng_state(), before)


def next_number(ids: Tensor, real: Tensor | None) -> Tensor:
    """Predict the number after each token, and remember nothing."""
    del real
    return torch.nn.functional.one_hot((ids + 1) % 10, 10).float()


def test_a_sequence_is_extended_token_by_token() -> None:
    ids = torch.tensor([[3], [8]])
    assert extend(next_number, ids, 3, Sampling()).tolist() == [[3, 4, 5, 6], [8, 9, 0, 1]]
    assert torch.equal(extend(next_number, ids, 0, Sampling()), ids)


def test_a_prompt_padded_on_the_right_goes_on_from_its_last_real_token() -> None:
    ids = torch.tensor([[3, 7, 0], [0, 0, 5]])
    real = torch.tensor([[True, True, False], [False, False, True]])
    found = extend(next_number, ids, 2, Sampling(), real)
    assert found[:, 3:].tolist() == [[8, 9], [6, 7]]


def test_what_was_generated_counts_as_real() -> None:
    seen = []

    def remember(ids: Tensor, real: Tensor | None) -> Tensor:
        assert real is not None
        seen.append(real.int().tolist())
        return next_number(ids, None)

    extend(remember, torch.tensor([[3, 0]]), 3, Sampling(), torch.tensor([[True, False]]))
    assert seen == [[[0, 1]], [[0, 1, 1]], [[0, 1, 1, 1]]]


@pytest.mark.parametrize(("ids", "count"), [((1, 0), 1), ((1, 2), -1)])
def test_nothing_to_start_from_is_refused(ids: tuple[int, int], count: int) -> None:
    with pytest.raises(InputError, match=f"a prompt of {ids[1]} tokens and count={count}"):
        extend(next_number, torch.zeros(ids, dtype=torch.int64), count, Sampling())


def test_a_sample_without_a_real_token_is_refused() -> None:
    real = torch.tensor([[True, False], [False, False]])
    with pytest.raises(InputError, match="no real token in sample 1"):
        extend(next_number, torch.zeros(2, 2, dtype=torch.int64), 1, Sampling(), real)


@pytest.mark.parametrize(
    "arguments",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"temperature": "hot"},
        {"top_k": 0},
        {"top_k": 2.5},
        {"top_k": True},
        {"generator": 3},
    ],
    ids=str,
)
def test_what_chooses_nothing_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="choosing how tokens are drawn"):
        Sampling(**arguments)
