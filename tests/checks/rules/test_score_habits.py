"""AS302, AS303, AS304, AS401 to AS405: what whole calls and single heads do, by their numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.checks.rules.by_scores import ByHand, features, found, only


class Sharp(ByHand):
    def __init__(self, times: float = 1.0) -> None:
        super().__init__()
        self.times = times

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) * self.times


class Biased(ByHand):
    def __init__(self, bias: Tensor) -> None:
        super().__init__()
        self.bias = bias

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) + self.bias


class Growing(nn.Module):
    def __init__(self, gain: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList([ByHand(seed=at) for at in range(5)])
        self.gain = gain

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.gain * (x + layer(x))
        return x


def test_rows_that_are_all_one_hot_saturate_the_softmax() -> None:
    finding = only("AS302", Sharp(400.0), features(length=12))
    assert finding.severity == "warning"
    assert finding.evidence["sensitivity"] < 0.1
    assert not found("AS302", Sharp(3.0), features(length=12))


class Normalised(ByHand):
    """QK-norm, and no scale: no score passes head_dim, times `times`."""

    def __init__(self, times: float) -> None:
        super().__init__(width=1024, heads=1)
        self.times = times

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        q, k = (nn.functional.rms_norm(each, each.shape[-1:]) for each in (q, k))
        return q @ k.mT * self.times


def test_unit_entries_without_a_scale_do_not_saturate_by_themselves() -> None:
    wide = features(length=12, width=1024)
    assert not found("AS302", Normalised(1.0), wide)
    assert only("AS302", Normalised(4.0), wide).evidence["one_hot_rows"] > 0.9


def test_heads_that_rest_on_one_key_are_not_saturated_but_sinks() -> None:
    bias = 20.0 * (torch.arange(9) == 0)
    assert not found("AS302", Biased(bias), features(length=9))
    finding = only("AS404", Biased(bias), features(length=9))
    assert finding.severity == "note"
    assert finding.evidence["keys"] == [0, 0, 0]
    assert not found("AS404", ByHand(), features(length=9))


def test_heads_that_look_at_themselves() -> None:
    finding = only("AS405", Biased(20.0 * torch.eye(9)), features(length=9))
    assert len(finding.evidence["heads"]) == 3
    assert not found("AS405", ByHand(), features(length=9))


def test_scores_that_grow_from_layer_to_layer() -> None:
    finding = only("AS303", Growing(3.0), features())
    assert finding.evidence["growth"] > 10
    assert not found("AS303", Growing(0.8), features())


def test_low_entropy_is_a_note_from_a_single_run() -> None:
    finding = only("AS403", Sharp(60.0), features(length=64))
    assert finding.severity == "note"
    assert not found("AS403", Sharp(1.0), features(length=64))


@pytest.mark.parametrize("times", [1.0, 60.0])
def test_half_precision_loses_weight_where_scores_are_large(times: float) -> None:
    x = features(length=64).bfloat16()
    lost = found("AS304", Sharp(times).bfloat16(), x)
    assert [each.severity for each in lost] == ["warning"] * (times > 1.0)


@pytest.mark.parametrize("times", [1.0, 60.0])
def test_a_softmax_alone_in_half_precision(times: float) -> None:
    class Cast(Sharp):
        def weights(self, scores: Tensor) -> Tensor:
            return scores.bfloat16().softmax(-1).to(scores.dtype)

    lost = found("AS304", Cast(times), features(length=64))
    assert [each.evidence["dtype"] for each in lost] == ["bfloat16"] * (times > 1.0)


def test_weights_out_of_rounded_logarithms_do_not_sum_to_one() -> None:
    class Logarithms(ByHand):
        def weights(self, scores: Tensor) -> Tensor:
            return scores.log_softmax(-1).exp()

    x = features(length=300).bfloat16()
    finding = only("AS304", Logarithms().bfloat16(), x)
    assert finding.evidence["of"] == "sums"
    assert finding.evidence["percentile_95"] > 2 * finding.evidence["rounding"]
    assert not found("AS304", ByHand().bfloat16(), x)


def test_a_softmax_that_is_upcast_is_left_alone() -> None:
    class Upcast(Sharp):
        def weights(self, scores: Tensor) -> Tensor:
            return scores.float().softmax(-1).to(scores.dtype)

    assert not found("AS304", Upcast(60.0).bfloat16(), features(length=64).bfloat16())


def test_a_head_whose_columns_are_zero_is_dead() -> None:
    model = ByHand()
    with torch.no_grad():
        model.out.weight[:, 8:16] = 0.0
    assert only("AS401", model, features()).evidence["heads"] == [["", 0, 1]]


def test_where_all_heads_add_nothing_none_is_named() -> None:
    model = ByHand()
    nn.init.zeros_(model.out.weight)
    assert not found("AS401", model, features())


def test_heads_with_equal_weights_are_doubles() -> None:
    model = ByHand()
    with torch.no_grad():
        for part in model.qkv.weight.view(3, 3, 8, 24):
            part[2] = part[0]
        for part in model.qkv.bias.view(3, 3, 8):
            part[2] = part[0]
    finding = only("AS402", model, features())
    assert finding.evidence["doubles"] == [[2]]
    assert not found("AS402", ByHand(), features())


class Averaging(ByHand):
    """The weights of all heads are averaged; v has heads of its own, or one for all."""

    def __init__(self, *, shared: bool) -> None:
        super().__init__()
        self.shared = shared

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (each.unflatten(-1, (4, -1)).transpose(1, 2) for each in (x, x.flip(-1), 2 * x))
        weights = self.scores(q, k).softmax(-1).mean(1, keepdim=True)
        v = v[:, :1] if self.shared else v
        made: Tensor = weights @ v
        return made.transpose(1, 2).flatten(2)


def test_weights_that_are_averaged_before_they_meet_the_values_of_each_head() -> None:
    finding = only("AS402", Averaging(shared=False), features())
    assert finding.evidence["shared_by"] == 4
    assert finding.evidence["apart"] > 0.01
    assert finding.source is not None
    assert "mean(1" in finding.source.code
    assert not found("AS402", Averaging(shared=True), features())
