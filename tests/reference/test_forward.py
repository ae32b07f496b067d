"""Attention forward: the same as torch in float64, whatever parts it has, and each part matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings

from attnscope import reference
from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.errors import InputError
from attnscope.reference.parts import ForwardOptions, Options
from tests.reference.cases import CASES, PARTS, Case, far, in_torch, make

SIZES = {
    "batch": 2,
    "kv_heads": 2,
    "group": 2,
    "queries": 4,
    "keys": 5,
    "head_dim": 6,
    "value_dim": 3,
}
STEPS = ("raw_scores", "scores", "weights", "dropped_weights", "context", "logsumexp")


def run(case: Case, **changed: Any) -> reference.Attention:
    return reference.attention(case.q, case.k, case.v, **{**case.options, **changed})


def plain(rank: int = 4, *parts: str) -> Case:
    return make(SIZES, rank, frozenset(parts), seed=0)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(CASES)
def test_every_step_is_that_of_torch(case: Case) -> None:
    found, expected = run(case), in_torch(case)
    for step in STEPS:
        assert not far(getattr(found, step), expected[step].detach(), case), step


@pytest.mark.parametrize("part", PARTS)
def test_every_part_matters(part: str) -> None:
    before = ("mask with empty rows",) if part in {"zero", "uniform"} else ()
    without, with_it = run(plain(4, *before)), run(plain(4, *before, part))
    same = np.isclose(without.context, with_it.context, rtol=1e-3, equal_nan=True)
    assert not same.all()


@pytest.mark.parametrize("size", SIZES)
def test_every_size_is_its_own(size: str) -> None:
    case = make({**SIZES, size: SIZES[size] + 1}, 4, frozenset(), seed=0)
    shapes = [np.shape(getattr(run(case), step)) for step in ("weights", "context", "logsumexp")]
    heads = case.q.shape[1]
    assert shapes == [
        (case.q.shape[0], heads, case.q.shape[2], case.k.shape[2]),
        (case.q.shape[0], heads, case.q.shape[2], case.v.shape[3]),
        (case.q.shape[0], heads, case.q.shape[2]),
    ]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_context_is_that_of_sdpa(*, causal: bool, grouped: bool) -> None:
    sizes = {**SIZES, "keys": 4, "group": 2 if grouped else 1}
    case = make(sizes, 4, frozenset(), seed=3)
    q, k, v = (torch.from_numpy(x) for x in (case.q, case.k, case.v))
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
    assert not far(run(case, causal=causal), expected, case)


@pytest.mark.parametrize("empty_row", ["nan", "zero", "uniform"])
def test_a_recipe_gives_the_same(empty_row: Any) -> None:
    parts = ("mask with empty rows", "bias full", "softcap", "scale number", "tiled")
    case = plain(4, *parts)
    recipe = Recipe(
        0.3,
        Mask.from_tensor(torch.from_numpy(case.options["mask"]), 4, 5),
        torch.from_numpy(case.options["bias"]),
        softcap=1.5,
        group=2,
        expansion="repeat",
        empty_row=empty_row,
    )
    q, k, v = (torch.from_numpy(x) for x in (case.q, case.k, case.v))
    expected = recipe.context(q, k, v)
    assert not far(run(case, empty_row=empty_row), expected, case)


@pytest.mark.parametrize("rank", [2, 3])
def test_fewer_axes_give_the_same_rows(rank: int) -> None:
    whole = plain(4, "causal bottom-right")
    first = (0, 0)[: 4 - rank]
    part = run(Case(whole.q[first], whole.k[first], whole.v[first], whole.options, whole.parts))
    np.testing.assert_allclose(part, run(whole).context[first], rtol=1e-14)


def test_samples_that_are_one_are_broadcast() -> None:
    case = plain()
    once = reference.attention(case.q, case.k[:1], case.v[:1])
    twice = reference.attention(case.q, case.k[[0, 0]], case.v[[0, 0]])
    np.testing.assert_array_equal(once, twice)


def test_the_result_is_taken_for_its_context() -> None:
    found = run(plain())
    np.testing.assert_array_equal(np.asarray(found), found.context)
    assert float(np.sum(found)) == pytest.approx(float(found.context.sum()))
    assert np.asarray(found, dtype=np.float32).dtype == np.float32
    assert np.shape(found - found.context) == found.context.shape


def test_weights_and_sinks_share_one_row() -> None:
    found = run(plain(4, "sinks a head"))
    taken = np.exp(plain(4, "sinks a head").options["sinks"][..., 0] - found.logsumexp)
    np.testing.assert_allclose(found.weights.sum(-1) + taken, 1.0, rtol=1e-14)


def test_lists_tensors_and_narrow_floats_are_taken() -> None:
    case = plain()
    narrow = [x.astype(np.float32) for x in (case.q, case.k, case.v)]
    expected = reference.attention(*narrow)
    assert expected.context.dtype == np.float64
    tensors: Any = [torch.from_numpy(x) for x in narrow]
    np.testing.assert_array_equal(reference.attention(*tensors), expected)
    lists: Any = [x.tolist() for x in narrow]
    np.testing.assert_array_equal(reference.attention(*lists), expected)


def test_no_keys_give_an_empty_sum() -> None:
    case = plain()
    found = reference.attention(case.q, case.k[..., :0, :], case.v[..., :0, :])
    assert not found.context.any()
    assert np.isneginf(found.logsumexp).all()


def test_scores_far_out_neither_overflow_nor_warn() -> None:
    found = run(plain(), scale=1e300)
    assert np.isfinite(found.context).all()
    np.testing.assert_allclose(found.weights.max(-1), 1.0)


def test_arguments_are_not_changed() -> None:
    case = plain(4, "mask pairs", "bias full", "sinks a head")
    before = [x.copy() for x in (case.q, case.k, case.v, *case.options.values())]

    def spoil(x: np.ndarray) -> np.ndarray:
        x[...] = 0
        return x

    run(case, edit_raw_scores=spoil, edit_scores=spoil, edit_weights=spoil)
    for one, other in zip((case.q, case.k, case.v, *case.options.values()), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_edited_scores_change_what_follows() -> None:
    case = plain(4, "causal top-left")

    def favour_first(scores: np.ndarray) -> np.ndarray:
        scores[..., 0] += 100
        return scores

    plainly, edited = run(case), run(case, edit_scores=favour_first)
    np.testing.assert_array_equal(edited.raw_scores, plainly.raw_scores)
    np.testing.assert_allclose(edited.weights[..., 0], 1.0)
    first = np.repeat(case.v[:, :, :1], 2, axis=1)
    np.testing.assert_allclose(edited.context, np.broadcast_to(first, edited.context.shape))


def test_each_edit_works_at_its_own_place() -> None:
    case = plain(4, "softcap", "dropout")
    doubled: Callable[[np.ndarray], np.ndarray] = lambda x: x * 2  # noqa: E731
    expected = run(case)
    raw = run(case, edit_raw_scores=doubled)
    np.testing.assert_array_equal(raw.raw_scores, expected.raw_scores * 2)
    by_scale = run(case, scale=2 * case.q.shape[-1] ** -0.5)
    np.testing.assert_allclose(raw.scores, by_scale.scores, rtol=1e-14)
    scores = run(case, edit_scores=doubled)
    np.testing.assert_array_equal(scores.scores, expected.scores * 2)
    weights = run(case, edit_weights=doubled)
    np.testing.assert_array_equal(weights.weights, expected.weights * 2)
    np.testing.assert_allclose(weights.context, expected.context * 2, rtol=1e-14)


def test_everything_dropped_is_zero() -> None:
    found = run(plain(), keep=np.zeros((1, 1), dtype=bool), dropout=1.0)
    assert not found.context.any()


def test_a_normaliser_of_ones_own_is_taken() -> None:
    case = plain()
    shared = reference.NORMALISERS["relu"].times(1 / 5)
    expected = run(case, normaliser="relu").context / 5
    np.testing.assert_allclose(run(case, normaliser=shared), expected, rtol=1e-14)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"causal": True}, 'say "top-left"'),
    ({"causal": "lower"}, "the corner is 'lower'"),
    ({"mask": np.zeros((4, 5))}, "a float mask of 0 and 1"),
    ({"mask": np.where(np.eye(4, 5) > 0, 0, -np.inf)}, "read it with from_additive"),
    ({"mask": np.ones((4, 5), dtype=int)}, "read it with from_tokenizer"),
    ({"mask": np.ones((2, 4, 5), dtype=bool)}, r"\(2, 4, 5\), to be broadcast to \(2, 4, 4, 5\)"),
    ({"bias": np.ones((5, 4))}, r"bias of shape \(5, 4\)"),
    ({"scale": np.ones((3, 1, 1))}, r"scale of shape \(3, 1, 1\)"),
    ({"sinks": np.ones(4)}, r"sinks\[:, None, None\] for one a head"),
    ({"sinks": np.ones((3, 1, 1))}, r"sinks of shape \(3, 1\)"),
    ({"softcap": 0.0}, "a cap above 0"),
    ({"normaliser": "argmax"}, "the name is 'argmax'"),
    ({"dropout": 0.1}, "draws no random numbers"),
    ({"keep": np.ones((4, 5), dtype=bool)}, "keep without dropout"),
    ({"keep": np.ones((4, 5), dtype=bool), "dropout": 1.5}, "from 0 to 1"),
    ({"keep": np.ones((4, 5)), "dropout": 0.1}, "which weights dropout keeps"),
    ({"empty_row": "one"}, "empty_row is 'one'"),
    ({"kv_map": "turned"}, "the order is 'turned'"),
    ({"kv_map": [0, 1]}, r"the map \(0, 1\) for 4 heads"),
    ({"edit_scores": lambda _: None}, "edit_scores returned"),
    ({"edit_weights": lambda x: x[..., 0]}, "return the changed numbers"),
]


@pytest.mark.parametrize(("options", "text"), BAD, ids=[text for _, text in BAD])
def test_what_does_not_fit_is_an_error(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        run(plain(), **options)


@pytest.mark.parametrize(
    ("q", "k", "v", "text"),
    [
        (np.ones((4, 6)), np.ones((5, 7)), np.ones((5, 3)), "widths of q and k differ"),
        (np.ones((4, 6)), np.ones((5, 6)), np.ones((4, 3)), "one value for each key"),
        (np.ones((1, 4, 6)), np.ones((5, 6)), np.ones((5, 3)), "give all three as"),
        (np.ones(6), np.ones(6), np.ones(6), "give all three as"),
        (np.ones((4, 4, 6)), np.ones((3, 5, 6)), np.ones((3, 5, 6)), "4 heads and 3 kv heads"),
        (np.ones((2, 1, 4, 6)), np.ones((3, 1, 5, 6)), np.ones((3, 1, 5, 3)), "batches differ"),
        (np.ones((4, 6), dtype=bool), np.ones((5, 6)), np.ones((5, 3)), "q is of type bool"),
        (torch.ones(4, 6, requires_grad=True), np.ones((5, 6)), np.ones((5, 3)), "q can't be read"),
        (torch.ones(4, 6).bfloat16(), np.ones((5, 6)), np.ones((5, 3)), "q can't be read"),
        ([[1.0], [1.0, 2.0]], np.ones((5, 6)), np.ones((5, 3)), "q can't be read"),
    ],
)
def test_shapes_and_types_that_do_not_fit_are_errors(q: Any, k: Any, v: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        reference.attention(q, k, v)


def test_the_options_of_the_other_forms_are_those_of_attention() -> None:
    names = set(reference.attention.__annotations__) - {"q", "k", "v", "return"}
    edits = {name for name in names if name.startswith("edit_")}
    assert names - edits == set(Options.__annotations__)
    assert names == set(get_type_hints(ForwardOptions))
    assert len(edits) == 3
