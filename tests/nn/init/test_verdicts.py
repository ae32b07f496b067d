"""Whether attention starts uniform, sane, saturated or mixed, as an audit tells it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from attnscope.nn import ALiBi, Causal, MultiheadAttention, init
from tests.nn.init.writing import Separate, Sigmoid

WIDTH, HEADS, LENGTH = 64, 4, 32


def tokens(batch: int = 2) -> Tensor:
    return torch.randn(batch, LENGTH, WIDTH)


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(0.1, "uniform"), (0.9, "uniform"), (3.0, "sane"), (30.0, "saturated"), (1e4, "saturated")],
)
def test_the_verdict_follows_the_spread_of_the_scores(factor: float, verdict: str) -> None:
    model = Separate(WIDTH, HEADS, factor)  # nn.Linear's own values: scores of std 1/3
    found = init.audit(model, tokens())
    assert found.verdict == found[0].verdict == verdict
    assert found[0].sharpness.scores == pytest.approx(factor / 3, rel=0.15)


def test_unscaled_scores_of_wide_heads_are_saturated() -> None:
    class Unscaled(Separate):
        def __init__(self) -> None:
            super().__init__(512, 2, factor=16.0)  # takes the 1/√256 away again
            init.apply(self, init.XavierUniform())

    assert init.audit(Unscaled(), torch.randn(1, 64, 512)).verdict == "saturated"


def test_a_bias_that_is_sharp_on_purpose_is_not_held_against_q_and_k() -> None:
    module = MultiheadAttention(WIDTH, HEADS, batch_first=True, positions=ALiBi(), mask=Causal())
    init.apply(module, init.Normal(0.02))
    found = init.audit(module, *(torch.randn(2, 256, WIDTH),) * 3)[0]
    assert found.entropy_share is not None
    assert found.content_share is not None
    assert found.entropy_share < 0.9
    assert found.content_share > 0.99
    assert found.verdict == "uniform"


def test_one_saturated_head_among_sane_ones_is_counted() -> None:
    model = Separate(WIDTH, HEADS, factor=3.0)
    with torch.no_grad():
        model.to_q.weight[: WIDTH // HEADS] *= 50
    found = init.audit(model, tokens())
    assert found[0].saturated_heads == 1
    assert found[0].verdict == "sane"
    assert "sane (1 of 4 heads saturated)" in str(found)


@pytest.mark.parametrize(
    ("factors", "verdict", "text"),
    [
        ((50.0, 50.0, 0.01, 0.01), "mixed", "mixed (2 of 4 heads saturated, 2 uniform)"),
        ((50.0, 50.0, 50.0, 0.01), "mixed", "mixed (3 of 4 heads saturated, 1 uniform)"),
        ((50.0, 50.0, 1.0, 1.0), "mixed", "mixed (2 of 4 heads saturated)"),
        ((50.0, 50.0, 50.0, 1.0), "saturated", "saturated"),
        ((1.0, 1.0, 1.0, 0.01), "sane", "sane"),
    ],
)
def test_heads_of_opposite_kinds_are_not_called_sane_together(
    factors: tuple[float, ...], verdict: str, text: str
) -> None:
    model = Separate(WIDTH, HEADS, factor=3.0)
    with torch.no_grad():
        for factor, head in zip(factors, model.to_q.weight.chunk(HEADS), strict=True):
            head.mul_(factor)
    found = init.audit(model, tokens())
    assert found.verdict == found[0].verdict == verdict
    assert str(found).split("\n")[7].endswith(text)


def test_a_causal_mask_changes_no_verdict_for_its_short_rows() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    for factor, expected in ((0.8, "uniform"), (2.0, "sane"), (60.0, "saturated")):
        module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        with torch.no_grad():
            module.in_proj_weight[:WIDTH] *= factor  # scores of half of it
        x = tokens(8)
        plain = init.audit(module, x, x, x, need_weights=False)[0]
        causal = init.audit(module, x, x, x, attn_mask=mask, need_weights=False)[0]
        assert plain.verdict == causal.verdict == expected
        before, after = plain.sharpness.entropy, causal.sharpness.entropy
        assert before is not None
        assert after is not None
        assert after.high < before.high  # since short rows spread less by the same scores


def test_a_verdict_that_lies_at_its_limit_says_so() -> None:
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    with torch.no_grad():
        q, k, _ = module.in_proj_weight.split(WIDTH)
        for part in (q, k):
            part.div_(part.norm(dim=1, keepdim=True))  # rows of norm 1 give scores of std 1
        q.mul_(0.5)
    x = tokens(8)
    found = init.audit(module, x, x, x, need_weights=False)
    assert found[0].sharpness.scores == pytest.approx(0.5, rel=0.1)
    assert found[0].near in {"uniform", "sane"}
    assert f"{found.verdict}, near {found[0].near}" in str(found)
    assert found[0].to_json()["near"] == found[0].near
    with torch.no_grad():
        q.mul_(2)
    assert init.audit(module, x, x, x, need_weights=False)[0].near is None


def test_weights_that_are_no_distribution_have_no_verdict() -> None:
    found = init.audit(Sigmoid(WIDTH, HEADS), tokens())[0]
    assert found.verdict == "unknown"
    assert found.entropy_share is None
    assert "no distribution over the keys" in "".join(found.notes)


def test_a_single_key_has_no_verdict() -> None:
    found = init.audit(Separate(WIDTH, HEADS), torch.randn(2, 1, WIDTH))[0]
    assert found.verdict == "unknown"
    assert "no query sees two keys" in "".join(found.notes)
