from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from attnscope.calls.mask import Mask
from attnscope.errors import InputError
from attnscope.reference import masks

LENGTHS = st.integers(1, 7)
CORNERS = st.sampled_from(["top-left", "bottom-right"])


@pytest.mark.filterwarnings("ignore:Lower right causal bias will produce NaNs:UserWarning")
@settings(max_examples=80, deadline=None, derandomize=True)
@given(queries=LENGTHS, keys=LENGTHS, corner=CORNERS)
def test_causal_masks_are_those_of_torch(queries: int, keys: int, corner: Any) -> None:
    function: Any = causal_upper_left if corner == "top-left" else causal_lower_right
    expected = function(queries, keys)._materialize().numpy()
    np.testing.assert_array_equal(masks.causal(queries, keys, corner), expected)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(queries=LENGTHS, keys=LENGTHS, corner=CORNERS, size=st.integers(1, 5))
def test_windows_are_those_of_a_recorded_mask(
    queries: int, keys: int, corner: Any, size: int
) -> None:
    past = masks.window(size, queries, keys, sides="past", alignment=corner)
    expected = Mask(causal=corner, window=size).dense(queries, keys)[0, 0]
    np.testing.assert_array_equal(past, expected.numpy())
    both = masks.window(size, queries, keys, sides="both", alignment="top-left")
    np.testing.assert_array_equal(both, Mask(window=size).dense(queries, keys)[0, 0].numpy())


def test_a_window_counts_the_keys_that_a_query_sees() -> None:
    assert masks.window(3, 9, sides="past")[5:].sum(-1).tolist() == [3] * 4
    assert masks.window(3, 9, sides="both")[2:7].sum(-1).tolist() == [5] * 5


@settings(max_examples=60, deadline=None, derandomize=True)
@given(queries=LENGTHS, keys=LENGTHS, left=st.none() | LENGTHS, right=st.none() | LENGTHS)
def test_a_band_is_what_lies_between_its_edges(
    queries: int, keys: int, left: int | None, right: int | None
) -> None:
    found = masks.band(queries, keys, left, right, "bottom-right")
    for query in range(queries):
        for key in range(keys):
            place = query + keys - queries
            seen = (left is None or key >= place - left) and (right is None or key <= place + right)
            assert found[query, key] == seen


def test_corners_differ_and_must_be_named_where_they_do() -> None:
    top, bottom = masks.causal(2, 5, "top-left"), masks.causal(2, 5, "bottom-right")
    assert top.sum(-1).tolist() == [1, 2]
    assert bottom.sum(-1).tolist() == [4, 5]
    np.testing.assert_array_equal(masks.causal(4), masks.causal(4, 4, "bottom-right"))
    calls: list[Any] = [
        lambda: masks.causal(2, 5),
        lambda: masks.window(2, 2, 5, sides="past"),
        lambda: masks.prefix(1, 2, 5),
        lambda: masks.band(2, 5, 1, 1),
    ]
    for call in calls:
        with pytest.raises(InputError, match="2 queries and 5 keys, and no corner"):
            call()


def test_a_prefix_is_seen_by_all_and_sees_itself_both_ways() -> None:
    one = masks.prefix(3, 5)
    assert one[:3, :3].all()
    np.testing.assert_array_equal(one[:, 3:], masks.causal(5)[:, 3:])
    each = masks.prefix([1, 3], 5)
    assert each.shape == (2, 1, 5, 5)
    np.testing.assert_array_equal(each[1, 0], one)
    np.testing.assert_array_equal(each[0, 0], masks.causal(5))
    ahead = masks.prefix(2, 1, 4, "bottom-right")
    assert ahead.tolist() == [[True] * 4]


def test_masks_join_by_and_and_or() -> None:
    both = masks.causal(3) & masks.padding([2, 3], 3)
    assert both.shape == (2, 1, 3, 3)
    assert both[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, False]]
    either = masks.causal(3) | masks.documents(np.array([[0, 1, 1]]))
    assert either[0, 0].tolist() == [[True, False, False], [True, True, True], [True, True, True]]


anything: Any = masks  # arguments of wrong types are the point
BAD: list[tuple[Any, str]] = [
    (lambda: anything.causal(2, 2, "left"), "the corner is 'left'"),
    (lambda: anything.window(0, 3, sides="past"), "the size is 0"),
    (lambda: anything.window(2, 3, sides="future"), "'future'"),
    (lambda: anything.band(3, 3, -1, 0), r"left is -1"),
    (lambda: anything.prefix(1.5, 3), "lengths 1.5 of type float64"),
    (lambda: anything.prefix([[1]], 3), r"shape \(1, 1\)"),
    (lambda: anything.causal(-1), "queries is -1; give at least 0"),
    (lambda: anything.causal(2.5), "queries is 2.5; give a whole number"),
    (lambda: anything.causal(queries=True), "queries is True; give a whole number"),
    (lambda: anything.causal(2, -1, "top-left"), "keys is -1"),
    (lambda: anything.window(1.5, 3, sides="past"), "the size is 1.5; give a whole number"),
    (lambda: anything.band(3, 3, 0.5, None), "left is 0.5"),
    (lambda: anything.band(3, 3, None, -2), "right is -2"),
    (lambda: anything.prefix(-1, 3), "lengths -1 of type int64"),
    (lambda: anything.prefix([0, -2], 3), r"lengths \[0, -2\]"),
    (lambda: anything.prefix(length=True, queries=3), "type bool"),
]


@pytest.mark.parametrize(("call", "text"), BAD, ids=[text for _, text in BAD])
def test_what_makes_no_mask_is_an_error(call: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        call()
