from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attnscope.calls.mask import Mask
from attnscope.calls.recipe import Recipe
from attnscope.capture.reading.scores import ScoresReading, read_scores

B, H, Q, K = 2, 3, 6, 6
S = 20**-0.5
INF = math.inf
LOWEST = torch.finfo(torch.float32).min
LOWER = torch.ones(Q, K, dtype=torch.bool).tril()
LEFT = torch.ones(B, 1, 1, K, dtype=torch.bool)
LEFT[1, ..., :2] = False
SLOPES = torch.tensor([0.5, 0.25, 0.0625])[:, None, None]
ALIBI = -SLOPES * (torch.arange(Q)[:, None] - torch.arange(K)).abs()
RELATIVE = torch.randn(1, H, Q, K, generator=torch.Generator().manual_seed(1)) * 4
SINKS = torch.tensor([0.5, -1.0, 2.0]).view(1, H, 1, 1)

Operations = Callable[[Tensor], Tensor]


def products(dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.randn(B, H, Q, K) * 5).to(dtype)


def read(operations: Operations, raw: Tensor | None = None) -> ScoresReading:
    raw = products() if raw is None else raw
    return read_scores(operations, raw, operations(raw.clone()))


def minus_max(scores: Tensor) -> Tensor:
    return scores - scores.amax(-1, keepdim=True)


def add(bias: Tensor) -> Operations:
    return lambda raw: raw * S + bias


def kind(reading: ScoresReading) -> str:
    return "none" if reading.visible is None else Mask.from_tensor(reading.visible).kind


@pytest.mark.parametrize("scale", [S, 1.0, 0.125, -2.0, 1e-4])
def test_a_number_is_read_exactly(scale: float) -> None:
    reading = read(lambda raw: raw * scale)
    assert reading.scale == scale
    assert reading.unknown == ()
    assert reading.bias is None
    assert reading.visible is None


@pytest.mark.parametrize(
    ("operations", "expected_kind", "fill"),
    [
        (lambda raw: (raw * S).masked_fill(~LOWER, -INF), "causal", (-INF,)),
        (lambda raw: raw.mul_(S).masked_fill_(~LOWER, -1e4), "causal", (-1e4,)),
        (lambda raw: torch.where(LEFT, raw * S, LOWEST), "padding", (LOWEST,)),
        (add(torch.where(LOWER & LEFT, 0.0, LOWEST)), "causal+padding", (LOWEST,)),
        (add((~LOWER) * -1e9 + (~LEFT) * -1e9), "causal+padding", (-2e9, -1e9)),
        (add(torch.where(LOWER, 0.0, -100.0)), "causal", (-100.0,)),
    ],
    ids=["inf", "in-place", "where", "lowest-added", "two-masks-added", "swin"],
)
def test_what_is_hidden_is_no_bias(
    operations: Operations, expected_kind: str, fill: tuple[float, ...]
) -> None:
    reading = read(operations)
    assert kind(reading) == expected_kind
    assert reading.fill == pytest.approx(fill)
    assert reading.bias is None
    assert reading.scale == S


@pytest.mark.parametrize("bias", [ALIBI, RELATIVE, LOWER.float(), -ALIBI * 60])
def test_what_is_added_is_no_mask(bias: Tensor) -> None:
    reading = read(add(bias))
    assert reading.visible is None
    assert reading.bias is not None
    assert torch.equal(reading.bias.expand(1, H, Q, K), bias.expand(1, H, Q, K))
    assert reading.scale == S


@pytest.mark.parametrize("low", [-100.0, -1e4, -1e9, LOWEST, -INF])
def test_bias_and_mask_are_told_apart(low: float) -> None:
    reading = read(add(RELATIVE + torch.where(LOWER, 0.0, low)))
    assert kind(reading) == "causal"
    assert reading.bias is not None
    assert torch.allclose(reading.bias[..., LOWER], RELATIVE[..., LOWER], atol=1e-5)
    assert bool((reading.bias[..., ~LOWER] == 0).all())
    assert reading.unknown == ()


@pytest.mark.parametrize("low", [None, -1e4])
def test_alibi_over_a_long_text_is_not_a_mask(low: float | None) -> None:
    length = 4096
    query, key = torch.arange(length)[:, None], torch.arange(length)
    bias = -0.5 * (query - key).clamp_min(0).float()[None, None]
    added = bias if low is None else bias + torch.where(key <= query, 0.0, low)
    reading = read(lambda raw: raw * 0.125 + added, torch.randn(1, 1, length, length))
    assert reading.scale == 0.125
    assert reading.bias is not None
    assert reading.bias.min().item() == -0.5 * (length - 1)
    assert kind(reading) == ("none" if low is None else "causal")
    assert reading.unknown == ()


@pytest.mark.parametrize("bias", [None, ALIBI])
def test_a_soft_cap_is_solved_for(bias: Tensor | None) -> None:
    added = torch.zeros(()) if bias is None else bias
    reading = read(lambda raw: torch.where(LOWER, 50 * torch.tanh(raw * S / 50) + added, LOWEST))
    assert reading.softcap == 50.0
    assert reading.scale == pytest.approx(S, rel=1e-6)
    assert (reading.bias is None) == (bias is None)
    assert kind(reading) == "causal"
    assert reading.unknown == ()


def test_neither_a_clamp_nor_a_cap_of_the_bias_is_a_soft_cap() -> None:
    assert read(lambda raw: (raw * S).clamp(-5, 5)).unknown == ("softcap",)
    capped = read(lambda raw: 30 * torch.tanh((raw * S + ALIBI * 10) / 30))
    assert capped.unknown == ("softcap",)
    assert capped.bias is None


def test_learned_scales_keep_only_the_axes_along_which_they_differ() -> None:
    per_head = torch.tensor([1.0, 2.0, 3.0]).view(1, H, 1, 1)
    per_row = torch.arange(2, Q + 2).log().view(1, 1, Q, 1)
    for scale in (per_head, per_row):
        reading = read(scale.__mul__)
        assert isinstance(reading.scale, Tensor)
        assert torch.equal(reading.scale, scale)


def test_a_scale_per_row_is_read_for_every_row_of_a_long_text() -> None:
    scale = torch.arange(1, 1025).view(1, 1, 1024, 1) / 8
    reading = read(lambda raw: raw * scale, torch.randn(1, 1, 1024, 1024))
    assert isinstance(reading.scale, Tensor)
    assert torch.equal(reading.scale, scale)


def test_heads_that_are_mixed_are_noticed() -> None:
    mix = torch.randn(H, H)
    reading = read(
        lambda raw: torch.einsum("bhqk,hg->bgqk", raw, mix.to(raw)).masked_fill(~LOWER, -1e9)
    )
    assert reading.scale is None
    assert reading.unknown == ("head-mixing",)
    assert kind(reading) == "causal"


@pytest.mark.parametrize("low", [-INF, -1e9])
def test_a_number_taken_from_each_row_is_no_bias(low: float) -> None:
    reading = read(lambda raw: minus_max((raw * S).masked_fill(~(LOWER & LEFT), low)))
    assert reading.row_shift
    assert reading.scale == pytest.approx(S, rel=1e-12)
    assert reading.bias is None
    assert kind(reading) == "causal+padding"
    assert reading.unknown == ()


def test_sinks_are_columns_that_do_not_answer() -> None:
    def joined(raw: Tensor) -> Tensor:
        scores = raw * S + torch.where(LOWER, 0.0, LOWEST)
        return torch.cat([scores, SINKS.expand(B, H, Q, 1).to(scores)], -1)

    for operations in (joined, lambda raw: minus_max(joined(raw))):
        reading = read(operations)
        assert reading.sinks is not None
        assert reading.sinks.shape == (1, H, 1, 1)
        assert torch.allclose(reading.sinks, SINKS, atol=1e-6)
        assert kind(reading) == "causal"
        assert reading.unknown == ()


@pytest.mark.parametrize(
    "operations",
    [lambda raw: raw * S * LOWER, lambda raw: (raw * S).masked_fill(~LOWER, -10.0)],
    ids=["multiplied", "weak"],
)
def test_a_mask_that_leaves_weight_is_reported_as_overwriting(operations: Operations) -> None:
    reading = read(operations)
    assert reading.visible is None
    assert reading.overwritten is not None
    assert torch.equal(reading.overwritten[0, 0], ~LOWER)
    assert reading.unknown == ("overwritten",)


def test_zeros_that_are_replaced_afterwards_are_hidden() -> None:
    def multiply_then_fill(raw: Tensor) -> Tensor:
        scores = raw * S * LOWER
        return scores.masked_fill(scores == 0, -INF)

    reading = read(multiply_then_fill)
    assert kind(reading) == "causal"
    assert reading.scale == S
    assert reading.unknown == ()


@pytest.mark.parametrize(
    ("low", "expected"), [(-INF, "nan"), (LOWEST, "uniform"), (-1e9, "uniform"), (-1e4, None)]
)
def test_rows_that_see_nothing_are_named(low: float, expected: str | None) -> None:
    reading = read(add(torch.where(LOWER & LEFT, 0.0, low)))
    assert reading.empty_row == expected
    assert reading.unknown == (() if expected else ("empty-row",))


def test_programs_in_short_types_are_read_in_a_long_one() -> None:
    lowest = torch.where(LOWER, 0.0, torch.finfo(torch.bfloat16).min)
    reading = read(lambda raw: raw * S + lowest.to(raw.dtype), products(torch.bfloat16))
    assert reading.scale == S
    assert kind(reading) == "causal"
    assert reading.unknown == ()
    half = read(lambda raw: (raw * S).masked_fill(~LOWER, -65504.0), products(torch.float16))
    assert (half.scale, half.fill) == (S, (-65504.0,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_programs_that_insist_on_their_type_are_read_in_it(dtype: torch.dtype) -> None:
    def insisting(raw: Tensor) -> Tensor:
        if raw.dtype != dtype:
            raise RuntimeError("expected m1 and m2 to have the same dtype")
        return raw * S + ALIBI.to(dtype)

    reading = read(insisting, products(dtype))
    assert reading.scale == pytest.approx(S, rel=torch.finfo(dtype).eps)
    assert reading.bias is not None
    assert torch.equal(reading.bias[0], ALIBI)
    assert reading.unknown == ()


def test_what_depends_on_all_scores_is_unknown() -> None:
    reading = read(lambda raw: raw / raw.std())
    assert reading.scale is None
    assert reading.unknown == ("scores",)


def test_actual_scores_that_are_not_predicted_are_unknown() -> None:
    raw = products()
    reading = read_scores(lambda given: given * S, raw, raw * S * 1.001)
    assert reading.scale is None
    assert reading.unknown == ("scores",)


def test_one_query_sees_a_cache() -> None:
    reading = read(lambda raw: raw * S, torch.randn(2, 3, 1, 9))
    assert (reading.scale, kind(reading)) == (S, "none")


@pytest.mark.parametrize(("diagonal", "name"), [(0, "causal"), (4, "causal-bottom-right")])
def test_corners_of_a_causal_mask(diagonal: int, name: str) -> None:
    seen = torch.ones(3, 7, dtype=torch.bool).tril(diagonal)
    reading = read(lambda raw: (raw * S).masked_fill(~seen, -INF), torch.randn(2, 3, 3, 7))
    assert kind(reading) == name


def test_a_reading_gives_the_same_scores_as_the_operations() -> None:
    q, k = torch.randn(B, H, Q, 8), torch.randn(B, H, K, 8)
    operations: Operations = lambda raw: (  # noqa: E731  one chain
        (20 * torch.tanh(raw * S / 20) + ALIBI).masked_fill(~(LOWER & LEFT), -INF)
    )
    reading = read(operations, q @ k.mT)
    assert reading.visible is not None
    recipe = Recipe(reading.scale, Mask.from_tensor(reading.visible), reading.bias, reading.softcap)
    torch.testing.assert_close(recipe.scores(q, k), operations(q @ k.mT))


def test_the_random_state_and_the_raw_scores_are_left_alone() -> None:
    raw = products()
    scores, kept, state = raw * S, raw.clone(), torch.get_rng_state()
    read_scores(lambda given: given.mul_(S), raw, scores)
    assert torch.equal(raw, kept)
    assert torch.equal(torch.get_rng_state(), state)
