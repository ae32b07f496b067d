from __future__ import annotations

import numpy as np
import pytest
import torch

from attnscope.errors import InputError
from attnscope.reference import expand_kv, kv_head_map, merge_heads, split_heads, sum_groups
from attnscope.reference.heads import KvMap


def test_splitting_is_view_then_transpose() -> None:
    x = torch.arange(2 * 3 * 8).reshape(2, 3, 8).double()
    expected = x.view(2, 3, 4, 2).transpose(1, 2).numpy()
    np.testing.assert_array_equal(split_heads(x.numpy(), 4), expected)
    np.testing.assert_array_equal(merge_heads(expected), x.numpy())


def test_splitting_is_not_a_view_alone() -> None:
    x = np.arange(2 * 3 * 8.0).reshape(2, 3, 8)
    assert not np.array_equal(split_heads(x, 4), x.reshape(2, 4, 3, 2))


@pytest.mark.parametrize(
    ("order", "expected"),
    [("repeated", (0, 0, 0, 1, 1, 1)), ("tiled", (0, 1, 0, 1, 0, 1)), ([1] * 6, (1,) * 6)],
)
def test_the_map_says_which_kv_head_is_met(order: KvMap, expected: tuple[int, ...]) -> None:
    assert kv_head_map(6, 2, order) == expected
    x = np.random.default_rng(0).normal(size=(3, 2, 4, 5))
    np.testing.assert_array_equal(expand_kv(x, 6, order), x[:, list(expected)])


def test_expansion_is_that_of_torch() -> None:
    x = torch.randn(3, 2, 4, 5).double()
    repeated, tiled = x.repeat_interleave(3, 1).numpy(), x.repeat(1, 3, 1, 1).numpy()
    np.testing.assert_array_equal(expand_kv(x.numpy(), 6), repeated)
    np.testing.assert_array_equal(expand_kv(x.numpy(), 6, "tiled"), tiled)


@pytest.mark.parametrize("order", ["repeated", "tiled", [0, 0, 1, 0, 0, 0]])
def test_the_sum_over_groups_is_the_transpose_of_the_expansion(order: KvMap) -> None:
    rng = np.random.default_rng(0)
    x, gradient = rng.normal(size=(3, 2, 4, 5)), rng.normal(size=(3, 6, 4, 5))
    forward = (expand_kv(x, 6, order) * gradient).sum()
    assert (x * sum_groups(gradient, 2, order)).sum() == pytest.approx(forward)


def test_what_can_not_be_split_merged_or_matched_is_an_error() -> None:
    with pytest.raises(InputError, match=r"\(2, 3, 7\) for 4 heads"):
        split_heads(np.ones((2, 3, 7)), 4)
    with pytest.raises(InputError, match="heads is 0"):
        split_heads(np.ones((2, 3, 8)), 0)
    with pytest.raises(InputError, match=r"shape \(3, 8\)"):
        merge_heads(np.ones((3, 8)))
    with pytest.raises(InputError, match=r"shape \(3, 8\)"):
        expand_kv(np.ones((3, 8)), 4)
    with pytest.raises(InputError, match="5 heads and 2 kv heads"):
        kv_head_map(5, 2)
    with pytest.raises(InputError, match="2 heads and 0 kv heads"):
        kv_head_map(2, 0)
    with pytest.raises(InputError, match="numbers from 0 to 1"):
        kv_head_map(2, 2, [0, 2])
