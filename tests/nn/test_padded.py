"""Which tokens are real: positions, masks, and refusals that name the convention."""

from __future__ import annotations

import pytest
import torch

from attnscope.errors import InputError
from attnscope.nn import KeyValueCache
from attnscope.nn.padded import RealTokens, check_real, padding_first, positions_of, seeing_of

REAL = torch.tensor([[False, False, True, True], [True, True, False, False], [True] * 4])


def grown(tokens: int, window: int | None = None) -> KeyValueCache:
    cache, k = KeyValueCache(window), torch.zeros(1, 1, tokens, 2)
    cache.extend(k, k, torch.arange(tokens))
    return cache


def test_positions_count_real_tokens() -> None:
    assert positions_of(REAL).tolist() == [[0, 0, 0, 1], [0, 1, 1, 1], [0, 1, 2, 3]]


def test_padding_is_moved_to_the_left_and_the_order_stays() -> None:
    ids, real = padding_first(torch.tensor([[1, 2, 3, 4]] * 3), REAL)
    assert ids.tolist() == [[1, 2, 3, 4], [3, 4, 1, 2], [1, 2, 3, 4]]
    assert torch.equal(real, torch.stack([REAL[0], REAL[0], REAL[2]]))


def test_every_query_sees_real_keys_and_itself() -> None:
    place = torch.arange(4)
    visible = RealTokens(REAL, positions_of(REAL)).visible(place, place).expand(3, 1, 4, 4)[:, 0]
    assert torch.equal(visible, REAL[:, None, :] | torch.eye(4, dtype=torch.bool))
    assert bool(visible.any(-1).all())  # no row is empty


def test_without_padding_there_is_nothing_to_say() -> None:
    positions, seeing = seeing_of(torch.zeros(2, 3, dtype=torch.int64), None, [grown(5)])
    assert positions.tolist() == [[5, 6, 7]]
    assert not seeing


def test_with_a_cache_only_the_new_positions_are_returned() -> None:
    positions, seeing = seeing_of(torch.zeros(3, 1, dtype=torch.int64), REAL, [grown(3)])
    assert positions.tolist() == [[1], [1], [3]]
    assert set(seeing) == {"mask", "positions"}


@pytest.mark.parametrize(
    ("real", "found"),
    [
        (torch.ones(2, 3, dtype=torch.int64), "1/0 numbers (torch.int64) of shape (2, 3)"),
        (torch.ones(2, 4, dtype=torch.bool), "booleans (torch.bool) of shape (2, 4)"),
        (torch.zeros(2, 3), "1/0 numbers (torch.float32) of shape (2, 3)"),
    ],
)
def test_another_convention_is_named(real: torch.Tensor, found: str) -> None:
    with pytest.raises(InputError) as error:
        check_real(real, torch.zeros(2, 3, dtype=torch.int64))
    assert error.value.found == found
    assert "attention_mask.bool()" in error.value.todo


def test_with_a_cache_all_tokens_so_far_are_asked_for() -> None:
    with pytest.raises(InputError, match="for the 5 tokens in the cache too"):
        check_real(torch.ones(2, 3, dtype=torch.bool), torch.zeros(2, 3), before=5)


def test_a_cache_that_forgot_real_tokens_before_padding_is_refused() -> None:
    ids = torch.zeros(3, 1, dtype=torch.int64)
    with pytest.raises(InputError, match="padding behind real tokens, and caches that keep 2 of 3"):
        seeing_of(ids, REAL, [grown(3, window=2)])
    seeing_of(ids, REAL, [grown(3, window=3)])
    seeing_of(ids[:2], REAL[::2], [grown(3, window=2)])  # padding on the left alone
