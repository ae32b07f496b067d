"""AS306: scale, cap, window and rotary settings of a config that are not followed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.marks import marked
from tests.checks.rules.by_scores import ByHand, features, found, line_of, only


class Configured(ByHand):
    def __init__(self, *, scale: float, cap: float | None, window: int, base: float) -> None:
        super().__init__()
        self.config: Any = None
        self.scale, self.cap, self.window, self.base = scale, cap, window, base

    def turned(self, x: Tensor) -> Tensor:
        size = x.shape[-1]
        steps = self.base ** (-torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(x.shape[-2]), steps).repeat(1, 2)  # rotary
        half = torch.cat((-x[..., size // 2 :], x[..., : size // 2]), -1)
        return x * angles.cos() + half * angles.sin()

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = self.turned(q) @ self.turned(k).mT * self.scale  # scale
        if self.cap is not None:
            scores = self.cap * torch.tanh(scores / self.cap)
        i, j = torch.arange(q.shape[-2])[:, None], torch.arange(q.shape[-2])
        hidden = (j > i) | (i - j >= self.window)
        return scores.masked_fill(hidden, float("-inf"))  # mask

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)  # uncapped


RIGHT = {"scale": 0.25, "cap": 5.0, "window": 3, "base": 5000.0}
CONFIG = {
    "query_pre_attn_scalar": 16,
    "attn_logit_softcapping": 5.0,
    "sliding_window": 3,
    "rope_theta": 5000.0,
}


def model(config: dict[str, Any], **how: Any) -> Configured:
    made = Configured(**{**RIGHT, **how})
    made.config = SimpleNamespace(**config)
    return made


@pytest.mark.parametrize(
    ("how", "setting", "mark"),
    [
        ({"scale": 8**-0.5}, "query_pre_attn_scalar", "scale"),
        ({"cap": None}, "attn_logit_softcapping", "uncapped"),
        ({"window": 99}, "sliding_window", "mask"),
        ({"base": 10000.0}, "rope_theta", "rotary"),
    ],
)
def test_a_setting_that_is_not_followed(how: dict[str, Any], setting: str, mark: str) -> None:
    finding = only("AS306", model(CONFIG, **how), features(length=9))
    assert (finding.severity, finding.evidence["setting"]) == ("error", setting)
    assert line_of(finding) == marked(__file__, mark)


class Padded(Configured):
    """Positions start after the padding on the left; the frequencies are made once."""

    steps: Tensor

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        steps = self.base ** (-torch.arange(0, 8, 2) / 8)  # steps
        self.register_buffer("steps", steps)

    def turned(self, x: Tensor) -> Tensor:
        at = torch.arange(x.shape[-2]) - torch.tensor([4, 0, 2])[:, None]
        angles = at.clamp_min(0)[:, None, :, None].float() * self.steps[None, None, None, :]
        angles = torch.cat((angles, angles), -1)
        half = torch.cat((-x[..., 4:], x[..., :4]), -1)
        return x * angles.cos() + half * angles.sin()


def test_positions_that_stand_still_at_padding() -> None:
    made = Padded(**{**RIGHT, "base": 10000.0})
    made.config = SimpleNamespace(**CONFIG)
    finding = only("AS306", made, features(length=9))
    assert finding.evidence["found"] == pytest.approx(10000.0, rel=1e-3)
    assert line_of(finding) == marked(__file__, "steps")
    made = Padded(**RIGHT)
    made.config = SimpleNamespace(**CONFIG)
    assert not found("AS306", made, features(length=9))


class Complex(Configured):
    """Rotations are complex numbers, kept as a buffer or as a plain attribute."""

    turns: Tensor

    def __init__(self, *, kept: bool, **how: Any) -> None:
        super().__init__(**how)
        angles = torch.outer(torch.arange(64), self.base ** (-torch.arange(0, 8, 2) / 8))
        if kept:
            self.register_buffer("turns", torch.polar(torch.ones(64, 4), angles))
        else:
            self.turns = torch.polar(torch.ones(64, 4), angles)

    def turned(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.unflatten(-1, (4, 2)).contiguous())
        return torch.view_as_real(pairs * self.turns[: x.shape[-2]]).flatten(-2)


@pytest.mark.parametrize("kept", [True, False])
def test_rotations_as_complex_numbers(*, kept: bool) -> None:
    made = Complex(kept=kept, **{**RIGHT, "base": 10000.0})
    made.config = SimpleNamespace(**CONFIG)
    finding = only("AS306", made, features(length=9))
    assert finding.evidence["setting"] == "rope_theta"
    assert finding.evidence["found"] == pytest.approx(10000.0, rel=1e-3)
    made = Complex(kept=kept, **RIGHT)
    made.config = SimpleNamespace(**CONFIG)
    assert not found("AS306", made, features(length=9))


def test_a_cap_that_is_declared() -> None:
    bare = model({}, cap=None)
    finding = only("AS306", bare, features(length=9), expect={"softcap": 5.0})
    assert "expect softcap is 5 and no cap" in finding.message
    assert not found("AS306", model({}), features(length=9), expect={"softcap": 5.0})


def test_a_config_that_is_followed() -> None:
    assert not found("AS306", model(CONFIG), features(length=9))


def test_a_window_longer_than_the_inputs_can_not_be_told() -> None:
    assert not found("AS306", model({"sliding_window": 64}, window=99), features(length=9))


def test_scaled_rotary_embeddings_are_left_alone() -> None:
    config = {"rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert not found("AS306", model(config), features(length=9))
