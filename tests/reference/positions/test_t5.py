from __future__ import annotations

from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from attnscope.errors import InputError
from attnscope.reference import t5_bias, t5_bias_backward, t5_buckets
from tests.reference.differences import CLOSE, slopes

EDGE = 1e-5
"""Beside the edge of a bucket float32, in which T5 takes the logarithm, may fall on either side."""


def in_t5(distance: Any, *, bidirectional: bool, buckets: int, max_distance: int) -> Any:
    theirs: Any = T5Attention._relative_position_bucket
    return theirs(torch.tensor(distance), bidirectional, buckets, max_distance).numpy()


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(
    ("buckets", "max_distance"), [(32, 128), (32, 256), (64, 128), (32, 512), (16, 64)]
)
def test_buckets_of_real_models_are_t5s(
    buckets: int, max_distance: int, *, bidirectional: bool
) -> None:
    distance = np.arange(-3000, 3001)
    found = t5_buckets(
        distance, bidirectional=bidirectional, buckets=buckets, max_distance=max_distance
    )
    expected = in_t5(
        distance, bidirectional=bidirectional, buckets=buckets, max_distance=max_distance
    )
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(each=st.integers(2, 40), more=st.integers(1, 300), bidirectional=st.booleans())
def test_buckets_are_t5s_but_for_the_edges(each: int, more: int, *, bidirectional: bool) -> None:
    near = each // 2
    sizes = {"buckets": each * (2 if bidirectional else 1), "max_distance": near + more}
    distance = np.arange(-600, 601)
    found = t5_buckets(distance, bidirectional=bidirectional, **sizes)
    expected = in_t5(distance, bidirectional=bidirectional, **sizes)
    for place in np.flatnonzero(found != expected):
        away = Fraction(abs(int(distance[place])), near)
        exact = log(away) / log(sizes["max_distance"] / near) * (each - near)
        assert abs(exact - round(exact)) < EDGE, (distance[place], exact)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_bias_is_t5s(*, bidirectional: bool) -> None:
    sizes: dict[str, Any] = {
        "d_model": 8,
        "num_heads": 2,
        "d_kv": 4,
        "relative_attention_num_buckets": 8,
    }
    config = T5Config(
        **sizes, relative_attention_max_distance=20, is_decoder=not bidirectional, use_cache=False
    )
    module: Any = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    expected = module.compute_bias(30, 30)
    found = t5_bias(
        module.relative_attention_bias.weight.detach().numpy(),
        np.arange(30),
        np.arange(30),
        bidirectional=bidirectional,
        max_distance=20,
    )
    np.testing.assert_array_equal(found, expected[0].detach())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(shift=st.integers(-100, 100), bidirectional=st.booleans())
def test_the_bias_depends_on_the_distance_alone(shift: int, *, bidirectional: bool) -> None:
    table = np.random.default_rng(0).normal(size=(8, 3))
    places = np.array([0, 1, 5, 30])
    plain = t5_bias(table, places, places, bidirectional=bidirectional)
    moved = t5_bias(table, places + shift, places + shift, bidirectional=bidirectional)
    np.testing.assert_array_equal(moved, plain)


def test_buckets_never_shrink_with_the_distance_and_use_their_whole_range() -> None:
    distance = np.arange(1000)
    for bidirectional, largest in ((True, 15), (False, 31)):
        found = t5_buckets(-distance, bidirectional=bidirectional)
        assert (np.diff(found) >= 0).all()
        assert set(found) == set(range(largest + 1))


def test_later_keys_have_buckets_of_their_own_in_both_directions_alone() -> None:
    assert (t5_buckets([1, 5, 500], bidirectional=False) == 0).all()
    later, earlier = (t5_buckets([s * 1, s * 5, s * 500], bidirectional=True) for s in (1, -1))
    np.testing.assert_array_equal(later, earlier + 16)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_the_gradient_of_the_table_is_the_slope_and_torchs(*, bidirectional: bool) -> None:
    rng = np.random.default_rng(0)
    places = rng.integers(0, 40, size=(2, 5)), rng.integers(0, 40, size=(2, 6))
    along, table = rng.normal(size=(2, 3, 5, 6)), rng.normal(size=(8, 3))
    options: Any = {"bidirectional": bidirectional, "max_distance": 20}
    (expected,) = slopes(lambda given: t5_bias(given, *places, **options), table, along=along)
    found = t5_bias_backward(along, *places, buckets=8, **options)
    np.testing.assert_allclose(found, expected, atol=CLOSE)
    shared = t5_bias_backward(along, places[0][0], places[1][0], buckets=8, **options)
    one_by_one = sum(
        t5_bias_backward(one, places[0][0], places[1][0], buckets=8, **options) for one in along
    )
    np.testing.assert_allclose(shared, one_by_one, atol=CLOSE)
    leaf = torch.tensor(table, requires_grad=True)
    index = t5_buckets(places[1][:, None, :] - places[0][:, :, None], buckets=8, **options)
    bias = torch.nn.functional.embedding(torch.tensor(index), leaf).movedim(-1, 1)
    bias.backward(torch.tensor(along))
    assert leaf.grad is not None
    np.testing.assert_allclose(found, leaf.grad, atol=CLOSE)


@pytest.mark.parametrize(
    "change",
    [{"bidirectional": False}, {"buckets": 16}, {"max_distance": 64}],
    ids=["bidirectional", "buckets", "max_distance"],
)
def test_each_argument_matters(change: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"bidirectional": True, "buckets": 32, "max_distance": 128}
    distance = np.arange(-200, 200)
    assert (t5_buckets(distance, **{**plain, **change}) != t5_buckets(distance, **plain)).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bidirectional": True, "buckets": 9}, "9 buckets for two directions; give an even"),
        ({"bidirectional": True, "buckets": 2}, "buckets is 2; give at least 4"),
        ({"bidirectional": False, "buckets": 1}, "buckets is 1; give at least 2"),
        (
            {"bidirectional": False, "max_distance": 16},
            "max_distance is 16, and the near buckets reach to 16 already",
        ),
    ],
)
def test_what_cannot_be_used_is_named(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=r"^sorting distances into T5's buckets: ") as caught:
        t5_buckets([0, 1], **options)
    assert message in str(caught.value)


def test_shapes_and_types_that_do_not_fit_are_named() -> None:
    with pytest.raises(InputError, match="distance is of type float64"):
        t5_buckets([0.0], bidirectional=True)
    with pytest.raises(InputError, match=r"table \(4,\); give \(buckets, heads\)"):
        t5_bias(np.ones(4), [0], [0], bidirectional=False)
    with pytest.raises(InputError, match=r"gradient \(1, 2, 3\), distances \(2, 2\)"):
        t5_bias_backward(np.ones((1, 2, 3)), [0, 1], [0, 1], bidirectional=False)
