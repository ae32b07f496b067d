from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.errors import InputError
from attnscope.reference import (
    BlockSparse,
    Fixed,
    LocalGlobal,
    Pattern,
    SlidingWindow,
    Strided,
    pairs_of,
)
from tests.reference.patterns.generated import ALIGNMENTS, PATTERNS


@settings(max_examples=200, deadline=None, derandomize=True)
@given(PATTERNS, st.integers(0, 10), st.integers(0, 4), ALIGNMENTS)
def test_the_list_of_each_row_is_its_row_of_the_mask(
    pattern: Pattern, queries: int, past: int, alignment: Any
) -> None:
    keys = queries + past
    mask = pattern.mask(queries, keys, alignment)
    assert mask.shape == (queries, keys)
    assert mask.dtype == np.bool_
    start = past if alignment == "bottom-right" else 0
    for row in range(queries):
        np.testing.assert_array_equal(pattern.keys_of(start + row, keys), np.flatnonzero(mask[row]))
    assert pairs_of(pattern, queries, keys, alignment) == mask.sum()


def test_the_number_of_pairs_grows_as_the_papers_say() -> None:
    for length in (64, 256):
        root = int(length**0.5)
        assert pairs_of(SlidingWindow(7), length, length) == 8 * length - 28
        assert pairs_of(Strided(root), length, length) <= 2 * root * length
        assert pairs_of(Fixed(root), length, length) <= 2 * root * length
        full = pairs_of(LocalGlobal(3, 3, (0, 1)), length, length)
        assert full <= (7 + 2) * length + 2 * length


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (SlidingWindow(1, 1, 2), lambda p, k: abs(k - p) in {0, 2}),
        (Strided(3, "local"), lambda p, k: p - k in {0, 1, 2}),
        (Strided(3, "column"), lambda p, k: p - k in {0, 3, 6, 9}),
        (Fixed(4, 2), lambda p, k: k <= p and (k // 4 == p // 4 or k % 4 in {2, 3})),
        (LocalGlobal(1, 0, (4,)), lambda p, k: 4 in {p, k} or p - k in {0, 1}),
        (LocalGlobal(1, 0, (0,), causal=True), lambda p, k: k <= p and (0 in {p, k} or p - k < 2)),
        (BlockSparse(np.eye(3, dtype=bool), 4), lambda p, k: p // 4 == k // 4),
        (
            BlockSparse(np.eye(3, dtype=bool), 4, causal=True),
            lambda p, k: p // 4 == k // 4 and k <= p,
        ),
    ],
)
def test_masks_are_what_the_rule_says_pair_by_pair(
    pattern: Pattern, expected: Callable[[int, int], bool]
) -> None:
    found = pattern.mask(10, 10)
    for position in range(10):
        for key in range(10):
            assert found[position, key] == expected(position, key), (position, key)


@pytest.mark.parametrize(
    ("plain", "changed"),
    [
        (SlidingWindow(2), SlidingWindow(3)),
        (SlidingWindow(2), SlidingWindow(2, 1)),
        (SlidingWindow(2), SlidingWindow(2, dilation=2)),
        (Strided(2), Strided(3)),
        (Strided(3), Strided(3, "local")),
        (Strided(3), Strided(3, "column")),
        (Fixed(3), Fixed(4)),
        (Fixed(3), Fixed(3, 2)),
        (BlockSparse(np.eye(3, dtype=bool), 4), BlockSparse(np.tri(3, dtype=bool), 4)),
        (BlockSparse(np.eye(3, dtype=bool), 4), BlockSparse(np.eye(3, dtype=bool), 5)),
        (BlockSparse(np.eye(3, dtype=bool), 4), BlockSparse(np.eye(3, dtype=bool), 4, causal=True)),
        (LocalGlobal(1, 1, (0,)), LocalGlobal(2, 1, (0,))),
        (LocalGlobal(1, 1, (0,)), LocalGlobal(1, 2, (0,))),
        (LocalGlobal(1, 1, (0,)), LocalGlobal(1, 1, (5,))),
        (LocalGlobal(1, 1, (0,)), LocalGlobal(1, 1, (0,), causal=True)),
    ],
)
def test_each_parameter_matters(plain: Pattern, changed: Pattern) -> None:
    assert (plain.mask(10, 10) != changed.mask(10, 10)).any()


def test_queries_before_the_first_key_see_nothing() -> None:
    for pattern in (SlidingWindow(2), Strided(2), Fixed(2), LocalGlobal(1, 0, (), causal=True)):
        assert not pattern.mask(5, 2, "bottom-right")[:3].any()
        assert all(len(pattern.keys_of(position, 2)) == 0 for position in (-3, -2, -1))


WRONG: Any = "center"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SlidingWindow(-1), "before is -1; give at least 0"),
        (lambda: SlidingWindow(1, -1), "after is -1"),
        (lambda: SlidingWindow(1, 1, 0), "dilation is 0; give at least 1"),
        (lambda: Strided(0), "stride is 0"),
        (lambda: Strided(2, WRONG), "the part is 'center'; give 'both' or 'local' or 'column'"),
        (lambda: Fixed(2, 3), "summary is 3 of a stride of 2; give at most the stride"),
        (lambda: BlockSparse([[1, 0]], 2), "a layout of type int64 and shape (1, 2)"),
        (lambda: BlockSparse([True], 2), "a layout of type bool and shape (1,)"),
        (lambda: BlockSparse([[True]], 2).mask(3, 2, "top-left"), "covers positions 0 to 1 and 2"),
        (lambda: BlockSparse([[True]], 2).mask(2, 3, "top-left"), "there are 3 keys and a query"),
        (lambda: BlockSparse([[True]], 2).keys_of(-1, 2), "a query at position -1"),
        (lambda: LocalGlobal(1, 1, (-1,)), "a global position is -1; give at least 0"),
    ],
)
def test_what_cannot_be_used_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=r"^making a sparse pattern: ") as caught:
        make()
    assert message in str(caught.value)


def test_where_queries_stand_has_to_be_told() -> None:
    for make in (SlidingWindow(1).mask, lambda *sizes: pairs_of(SlidingWindow(1), *sizes)):
        with pytest.raises(InputError, match="2 queries and 3 keys, and no corner; say"):
            make(2, 3)
        with pytest.raises(InputError, match="the corner is 'center'"):
            make(2, 2, WRONG)
