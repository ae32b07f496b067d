from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnscope.calls import recipe as module
from attnscope.calls.mask import Mask
from attnscope.calls.normalisers import NORMALISERS
from attnscope.calls.recipe import Recipe
from attnscope.errors import ReplayError

SCALE = 8**-0.5


def tensors(kv_heads: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    q = torch.randn(2, 4, 5, 8, dtype=torch.float64)
    k = torch.randn(2, kv_heads, 7, 8, dtype=torch.float64)
    v = torch.randn(2, kv_heads, 7, 6, dtype=torch.float64)
    return q, k, v


def test_scores_follow_the_fixed_order() -> None:
    q, k, _ = tensors()
    bias = torch.randn(1, 4, 5, 7, dtype=torch.float64)
    mask = Mask.causal_mask("bottom-right", 5, 7)
    scores = Recipe(0.5, mask, bias, softcap=2.0).scores(q, k)
    expected = 2 * torch.tanh(q @ k.mT * 0.5 / 2) + bias
    seen = torch.ones(5, 7, dtype=torch.bool).tril(2)
    assert torch.equal(scores, expected.masked_fill(~seen, float("-inf")))


def test_rows_are_those_of_the_whole() -> None:
    q, k, _ = tensors()
    recipe = Recipe(
        torch.rand(1, 4, 5, 1),
        Mask.causal_mask("top-left", 5, 7),
        torch.randn(2, 1, 5, 7),
        sinks=torch.randn(1, 4, 1, 1),
    )
    for name in ("scores", "weights"):
        function = getattr(recipe, name)
        torch.testing.assert_close(function(q, k, rows=slice(1, 4)), function(q, k)[..., 1:4, :])


@pytest.mark.parametrize(
    ("expansion", "heads"),
    [("repeat_interleave", [0, 0, 1, 1]), ("enable_gqa", [0, 0, 1, 1]), ("repeat", [0, 1, 0, 1])],
)
def test_kv_heads_meet_query_heads_as_they_were_expanded(expansion: str, heads: list[int]) -> None:
    q, k, v = tensors(kv_heads=2)
    recipe = Recipe(SCALE, group=2, expansion=expansion)
    expected = F.scaled_dot_product_attention(q, k[:, heads], v[:, heads])
    torch.testing.assert_close(recipe.context(q, k, v), expected)
    mapped = Recipe(SCALE, group=2, expansion="index", kv_map=tuple(heads))
    torch.testing.assert_close(mapped.context(q, k, v), expected)


def test_the_context_does_not_depend_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = tensors()
    recipe = Recipe(SCALE, Mask.causal_mask("top-left", 5, 7))
    whole = recipe.context(q, k, v)
    monkeypatch.setattr(module, "_BLOCK_ELEMENTS", 2 * 4 * 7 * 2)
    assert [block.shape[-2] for block in recipe.weight_blocks(q, k)] == [2, 2, 1]
    torch.testing.assert_close(recipe.context(q, k, v), whole)


def test_sinks_take_their_share_and_off_by_one_is_a_sink_of_zero() -> None:
    q, k, _ = tensors()
    sunk = Recipe(SCALE, sinks=torch.zeros(1, 1, 1, 1)).weights(q, k)
    named = Recipe(SCALE, normaliser="softmax-off-by-one").weights(q, k)
    torch.testing.assert_close(sunk, named)
    assert bool((sunk.sum(-1) < 1).all())


@pytest.mark.parametrize("name", sorted(NORMALISERS))
def test_every_normaliser_gives_hidden_keys_no_weight(name: str) -> None:
    q, k, _ = tensors()
    hidden = ~torch.ones(5, 7, dtype=torch.bool).tril()
    weights = Recipe(SCALE, Mask.causal_mask("top-left", 5, 7), normaliser=name).weights(q, k)
    assert bool((weights[..., hidden].nan_to_num(0.0) == 0).all())
    if name in {"softmax", "sparsemax", "entmax"}:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)))


def test_sparsemax_and_entmax_by_hand() -> None:
    scores = torch.tensor([[[[1.0, 0.8, -1.0, float("-inf")]]]], dtype=torch.float64)
    sparse = NORMALISERS["sparsemax"](scores, -1)
    torch.testing.assert_close(sparse, torch.tensor([[[[0.6, 0.4, 0.0, 0.0]]]]).double())
    smooth = NORMALISERS["entmax"](scores, -1)
    roots = smooth[smooth > 0].sqrt()
    torch.testing.assert_close(roots[0] - roots[1], torch.tensor(0.1).double())
    torch.testing.assert_close(smooth.sum(), torch.tensor(1.0).double())


def test_a_factor_multiplies_what_the_normaliser_gives() -> None:
    q, k, _ = tensors()
    recipe = Recipe(SCALE, normaliser="relu", normaliser_factor=1 / 7)
    torch.testing.assert_close(recipe.weights(q, k), (q @ k.mT * SCALE).relu() / 7)


@pytest.mark.parametrize(("empty_row", "value"), [("zero", 0.0), ("uniform", 1 / 7)])
def test_rows_that_see_nothing_get_what_the_recipe_says(empty_row: str, value: float) -> None:
    q, k, _ = tensors()
    seen = torch.ones(2, 1, 5, 7, dtype=torch.bool)
    seen[1, :, 0] = False
    recipe = Recipe(SCALE, Mask.from_tensor(seen))
    assert bool(recipe.weights(q, k)[1, :, 0].isnan().all())
    weights = replace(recipe, empty_row=empty_row).weights(q, k)  # type: ignore[arg-type]
    assert bool((weights[1, :, 0] == value).all())
    assert torch.equal(weights[0], recipe.weights(q, k)[0])


@pytest.mark.parametrize(("axis", "dim"), [("queries", 2), ("heads", 1), ("batch", 0)])
def test_the_normaliser_runs_over_the_axis_that_is_named(axis: str, dim: int) -> None:
    q, k, _ = tensors()
    weights = Recipe(SCALE, normaliser_axis=axis).weights(q, k, rows=slice(1, 3))
    torch.testing.assert_close(weights, (q @ k.mT * SCALE).softmax(dim)[..., 1:3, :])


def test_what_is_unknown_raises_only_where_it_is_needed() -> None:
    q, k, v = tensors()
    recipe = Recipe(SCALE, normaliser="unknown", unknown=("normaliser",))
    recipe.scores(q, k)
    with pytest.raises(ReplayError, match=r"deriving weights .*normaliser could not be read"):
        recipe.weights(q, k)
    with pytest.raises(ReplayError, match=r"deriving scores .*scale could not be read"):
        Recipe(None).scores(q, k)
    with pytest.raises(ReplayError, match="frobnicate over keys"):
        Recipe(SCALE, normaliser="frobnicate").weights(q, k)
    with pytest.raises(ReplayError, match=r"dropped with probability 0\.1.*set dropout=0\.0"):
        Recipe(SCALE, dropout=0.1).context(q, k, v)
    with pytest.raises(ReplayError, match=r"what mask did to the weights"):
        Recipe(SCALE, after=("mask",)).context(q, k, v)
    with pytest.raises(ReplayError, match=r"expansion of kv heads \(unknown\)"):
        Recipe(SCALE, expansion="unknown").scores(q, k[:, :2])
    with pytest.raises(ReplayError, match="4 heads and 3 kv heads"):
        Recipe(SCALE).scores(q, k[:, :3])


def test_json_has_numbers_and_no_tensors() -> None:
    recipe = Recipe(torch.tensor([1.0, 2.0]).view(1, 2, 1, 1), bias=torch.zeros(1))
    text = json.loads(json.dumps(recipe.to_json()))
    assert text["scale"] == [1.0, 2.0]
    assert (text["bias"], text["sinks"]) == (True, False)
    assert text["mask"] == {"kind": "none", "visible": 1.0}
