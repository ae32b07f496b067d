from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnscope.errors import InputError
from attnscope.reference import (
    shaw_context,
    shaw_context_backward,
    shaw_rows,
    shaw_scores,
    shaw_scores_backward,
    softmax,
)
from tests.reference.differences import CLOSE, ROUNDING, slopes


def array(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(1, 6),
    st.integers(0, 4),
    st.booleans(),
    st.integers(0, 99),
)
def test_attention_is_that_with_a_key_and_a_value_for_each_pair(
    before: int, after: int, queries: int, past: int, per_head: Any, seed: int
) -> None:
    batch, heads, keys, head_dim, value_dim = 2, 3, queries + past, 4, 5
    rng = np.random.default_rng(seed)
    q, k, v = (
        rng.normal(size=(batch, heads, length, width))
        for length, width in ((queries, head_dim), (keys, head_dim), (keys, value_dim))
    )
    lead = (heads,) if per_head else ()
    tables = [rng.normal(size=(*lead, before + 1 + after, d)) for d in (head_dim, value_dim)]
    rows = shaw_rows(np.arange(past, keys), np.arange(keys), before=before, after=after)

    scores = head_dim**-0.5 * (q @ k.swapaxes(-1, -2) + shaw_scores(q, tables[0], rows))
    weights = softmax(scores)
    context = weights @ v + shaw_context(weights, tables[1], rows)

    tensors = [torch.tensor(one) for one in (q, k, v)]
    far = torch.arange(keys) - torch.arange(past, keys)[:, None]
    index = far.clamp(-before, after) + before
    picked = [torch.tensor(table)[..., index, :] for table in tables]
    pair_keys = tensors[1].unsqueeze(-3) + picked[0]  # (batch, heads, queries, keys, head_dim)
    raw = torch.einsum("bhid,bhijd->bhij", tensors[0], pair_keys)
    expected_weights = (raw / head_dim**0.5).softmax(-1)
    pair_values = tensors[2].unsqueeze(-3) + picked[1]
    expected = torch.einsum("bhij,bhijd->bhid", expected_weights, pair_values)
    np.testing.assert_allclose(context, expected, atol=ROUNDING)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(-50, 50))
def test_what_is_added_depends_on_the_distance_alone(shift: int) -> None:
    places = np.array([0, 2, 3, 9])
    q, table = array(1, 4), array(6, 4, seed=1)
    q = np.repeat(q, 4, axis=0)  # equal queries, so that only the positions differ
    plain, moved = (
        shaw_scores(q, table, shaw_rows(at, at, before=3, after=2))
        for at in (places, places + shift)
    )
    np.testing.assert_array_equal(moved, plain)
    assert plain[0, 2] == plain[0, 3]  # 3 and 9 later: both clipped to 2
    assert plain[0, 1] != plain[0, 0]


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("per_sample", [False, True])
def test_gradients_are_the_slopes(*, per_head: bool, per_sample: bool) -> None:
    q, weights = array(2, 3, 4, 5), array(2, 3, 4, 6, seed=1)
    lead = (3,) if per_head else ()
    table = array(*lead, 6, 5, seed=2)
    queries = np.array([[0, 1, 2, 3], [2, 5, 7, 8]]) if per_sample else np.arange(4)
    rows = shaw_rows(queries, np.arange(6), before=3, after=2)
    along = array(2, 3, 4, 6, seed=3)
    expected = slopes(lambda q, table: shaw_scores(q, table, rows), q, table, along=along)
    found = shaw_scores_backward(along, q, table, rows)
    for own, slope in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, slope, atol=CLOSE)
    along = array(2, 3, 4, 5, seed=4)
    expected = slopes(lambda w, table: shaw_context(w, table, rows), weights, table, along=along)
    found = shaw_context_backward(along, weights, table, rows)
    for own, slope in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, slope, atol=CLOSE)


def test_samples_may_have_positions_of_their_own() -> None:
    q, table = array(2, 3, 4, 5), array(6, 5, seed=2)
    queries = np.array([[0, 1, 2, 3], [2, 5, 7, 8]])
    rows = shaw_rows(queries, np.arange(6), before=3, after=2)
    found = shaw_scores(q, table, rows)
    for sample in range(2):
        np.testing.assert_array_equal(found[sample], shaw_scores(q[sample], table, rows[sample]))
    np.testing.assert_array_equal(shaw_scores(q[:, 0], table, rows), found[:, 0])


def test_one_head_without_leading_axes_will_do() -> None:
    rows = shaw_rows([0, 1], [0, 1, 2], before=1, after=1)
    assert shaw_scores(array(2, 4), array(3, 4), rows).shape == (2, 3)
    assert shaw_context(array(2, 3), array(3, 4), rows).shape == (2, 4)


@pytest.mark.parametrize("change", [{"before": 1}, {"after": 1}], ids=["before", "after"])
def test_each_limit_matters(change: dict[str, int]) -> None:
    plain = shaw_rows(np.arange(5), np.arange(5), before=2, after=2)
    limits = {"before": 2, "after": 2, **change}
    changed = shaw_rows(np.arange(5), np.arange(5), **limits)
    assert (changed - limits["before"] != plain - 2).any()


@pytest.mark.parametrize(
    ("q", "table", "rows", "message"),
    [
        ((4, 5), (3, 6), (4, 4), "q (4, 5), table (3, 6), rows (4, 4); give q (..., queries"),
        ((3, 5), (3, 5), (4, 4), "q (3, 5), table (3, 5), rows (4, 4)"),
        ((4, 5), (2, 3, 5), (4, 4), "table (2, 3, 5), rows (4, 4), leading axes ()"),
        ((2, 4, 5), (3, 3, 5), (4, 4), "leading axes (2,)"),
        ((2, 4, 5), (3, 5), (3, 4, 4), "rows (3, 4, 4), leading axes (2,)"),
        ((2, 4, 5), (2, 3, 5), (2, 4, 4), "rows (2, 4, 4), leading axes (2,)"),
        ((4, 5), (5,), (4, 4), "the table has the shape (5,); give it at least 2 axes"),
        ((4, 5), (2, 2, 3, 5), (4, 4), "table (2, 2, 3, 5)"),
        ((4, 5), (2, 5), (4, 4), "rows 2 to 2 of a table of 2; give a table of before + 1 + after"),
    ],
)
def test_shapes_that_do_not_fit_are_named(q: Any, table: Any, rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=r"^scoring Shaw's relative keys: ") as caught:
        shaw_scores(np.ones(q), np.ones(table), np.full(rows, 2))
    assert message in str(caught.value)


def test_other_things_that_cannot_be_used_are_named() -> None:
    rows = shaw_rows([0], [0, 1], before=0, after=1)
    with pytest.raises(InputError, match="before is -1; give at least 0"):
        shaw_rows([0], [0], before=-1, after=0)
    with pytest.raises(InputError, match="rows -1 to 0 of a table of 2"):
        shaw_scores(np.ones((1, 2)), np.ones((2, 2)), [[-1, 0]])
    with pytest.raises(InputError, match="rows is of type float64"):
        shaw_scores(np.ones((1, 2)), np.ones((2, 2)), rows.astype(float))
    with pytest.raises(InputError, match=r"weights \(1, 3\), rows \(1, 2\)"):
        shaw_context(np.ones((1, 3)), np.ones((2, 2)), rows)
    with pytest.raises(
        InputError, match=r"gradient of shape \(1, 1\) for a result of shape \(1, 2\)"
    ):
        shaw_scores_backward(np.ones((1, 1)), np.ones((1, 2)), np.ones((2, 2)), rows)
    with pytest.raises(
        InputError, match=r"gradient of shape \(1, 1\) for a result of shape \(1, 3\)"
    ):
        shaw_context_backward(np.ones((1, 1)), np.ones((1, 2)), np.ones((2, 3)), rows)
