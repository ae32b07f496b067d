"""AS210: windows too wide, too narrow, missing, in the wrong layers; what may look so."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnscope
from attnscope.checks.report import Report
from tests.checks.marks import marked


def checked(model: Any, inputs: Any, window: Any, **more: Any) -> Report:
    expect = {"window": window, **more}
    report = attnscope.check(model.eval(), inputs, expect=expect, select=["AS210"])
    assert not [each for each in report.rules_skipped if each.failed]
    return report


def features(length: int = 10) -> Tensor:
    return torch.randn(2, length, 24, generator=torch.Generator().manual_seed(0))


class Local(nn.Module):
    """Attention whose visible pairs are a function of the distance from query to key."""

    def __init__(self, window: int | None = 3) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.window = window
        self.qkv, self.out = nn.Linear(24, 72), nn.Linear(24, 24)

    def seen(self, distance: Tensor) -> Tensor:
        seen = distance >= 0
        return seen if self.window is None else seen & (distance < self.window)

    def forward(self, x: Tensor) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 3, 8).permute(2, 0, 3, 1, 4)
        at = torch.arange(t)
        hidden = ~self.seen(at[:, None] - at)
        scores = (q @ k.mT / math.sqrt(8)).masked_fill(hidden, -math.inf)  # applied
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


class OneMore(Local):
    def seen(self, distance: Tensor) -> Tensor:
        assert self.window is not None
        return (distance >= 0) & (distance <= self.window)  # one more


class OneLess(Local):
    def seen(self, distance: Tensor) -> Tensor:
        assert self.window is not None
        return (distance >= 0) & (distance < self.window - 1)  # one less


class BothSides(Local):
    def seen(self, distance: Tensor) -> Tensor:
        assert self.window is not None
        return distance.abs() < self.window


class Sinks(Local):
    def seen(self, distance: Tensor) -> Tensor:
        seen = super().seen(distance)
        seen[:, :2] = (distance >= 0)[:, :2]
        return seen


class Chunks(Local):
    """The same pairs, computed in two blocks of queries."""

    def forward(self, x: Tensor) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 3, 8).permute(2, 0, 3, 1, 4)
        at = torch.arange(t)
        blocks = []
        for rows in at.chunk(2):
            hidden = ~self.seen(rows[:, None] - at)
            scores = (q[:, :, rows] @ k.mT / math.sqrt(8)).masked_fill(hidden, -math.inf)
            blocks.append(scores.softmax(-1) @ v)
        return self.out(torch.cat(blocks, 2).transpose(1, 2).reshape(b, t, c))


@pytest.mark.parametrize(
    ("model", "mark", "reach", "pair"),
    [
        (OneMore(), "one more", 4, (3, 0)),
        (OneLess(), "one less", 2, (2, 0)),
        (Local(None), "applied", 10, (3, 0)),
    ],
    ids=["wider", "narrower", "missing"],
)
def test_the_line_that_makes_the_window(
    model: Local, mark: str, reach: int, pair: tuple[int, int]
) -> None:
    (finding,) = checked(model, features(), 3).findings
    assert (finding.code, finding.severity) == ("AS210", "error")
    assert finding.source is not None
    assert finding.source.line == marked(__file__, mark)
    assert finding.evidence["keys_seen_at_most"] == reach
    assert (finding.evidence["query"], finding.evidence["key"]) == pair


@pytest.mark.parametrize(
    "model", [Local(), BothSides(), Sinks(), Chunks()], ids=["causal", "both", "sinks", "chunks"]
)
def test_right_windows_are_silent(model: Local) -> None:
    assert checked(model, features(), 3).ok


@pytest.mark.parametrize("declared", [5, 3])
def test_a_window_to_both_sides_may_be_counted_together(declared: int) -> None:
    assert checked(BothSides(3), features(), declared).ok
    assert not checked(BothSides(3), features(), 2).ok


def test_a_window_in_blocks_is_seen_through() -> None:
    assert not checked(Chunks(4), features(), 3).ok


def test_one_window_for_each_layer() -> None:
    model = nn.Sequential(Local(3), Local(None), Local(4))
    assert checked(model, features(), [3, None, 4]).ok
    found = checked(model, features(), [3, 4, None]).findings
    assert {finding.evidence["layer"] for finding in found} == {1, 2}


def test_what_cannot_be_told_is_said() -> None:
    for inputs, window, word in (
        (features(), [3, None], "windows are declared"),
        (features(3), 3, "give more"),
    ):
        report = checked(Local(3), inputs, window)
        assert word in report.rules_skipped[0].reason
