"""Calls computed again by the definition: what was changed is named, and nothing without it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.checks.probes.recomputed import Intended, by_definition, evidence_of
from attnscope.checks.subject.subject import Subject
from tests.checks.rules.by_scores import ByHand, features, only


def found(model: Any, inputs: Any, intended: Intended | None = None, **expect: Any) -> Any:
    subject = Subject(model, inputs, expect)
    return by_definition(subject, subject.calls[0], intended or Intended())


class Causal(ByHand):
    """Masked by `visible(queries, keys)`."""

    def visible(self, queries: int, keys: int) -> Tensor:
        return torch.ones(queries, keys, dtype=torch.bool).tril()

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        scores = q @ k.mT * q.shape[-1] ** -0.5
        return scores.masked_fill(~self.visible(*scores.shape[-2:]), float("-inf"))  # type: ignore[no-any-return]


class Twice(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) * q.shape[-1] ** -0.5  # type: ignore[no-any-return]


class Capped(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return 0.5 * torch.tanh(super().scores(q, k) / 0.5)


class OverQueries(ByHand):
    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-2)


class Scaled(ByHand):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT

    def weights(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1) * 8**-0.5


class UpsideDown(Causal):
    def visible(self, queries: int, keys: int) -> Tensor:
        return ~super().visible(queries, keys)


class Behind(Causal):
    """Three keys come before the tokens themselves."""

    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = (torch.cat([each[:, :, :3], each], 2) for each in (k, v))
        weights = self.weights(self.scores(q, k))
        return self.out(self.context(weights, v).transpose(1, 2).reshape(b, n, d)), weights


class Grouped(nn.Module):
    def __init__(self, *, tiled: bool) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.q, self.kv = nn.Linear(24, 32), nn.Linear(24, 32)
        self.tiled = tiled

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = self.q(x).view(b, n, 4, 8).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, 2, 8).permute(2, 0, 3, 1, 4)
        if self.tiled:
            k, v = k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)
        else:
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    ("model", "intended", "key"),
    [
        (Twice(), Intended(), "scale"),
        (Scaled(), Intended(), "scale"),
        (OverQueries(), Intended(), "softmax-axis"),
        (UpsideDown(), Intended(masked=True), "mask-inverted"),
        (Behind(), Intended(masked=True), "mask-corner"),
        (Causal(), Intended(window=3), "mask-missing"),
        (Grouped(tiled=True), Intended(), "kv-heads-tiled"),
    ],
)
def test_what_was_changed_is_named(model: nn.Module, intended: Intended, key: str) -> None:
    explanation = found(model, features(), intended, causal=True)
    assert explanation.key == key
    assert explanation.remains < 1e-6


@pytest.mark.parametrize(
    "model", [ByHand(), Causal(), Grouped(tiled=False), nn.MultiheadAttention(24, 3)]
)
@pytest.mark.parametrize("masked", [False, True])
def test_none_is_named_where_there_is_none(model: nn.Module, masked: bool) -> None:  # noqa: FBT001  a parameter
    x = features()
    inputs = (x, x, x) if isinstance(model, nn.MultiheadAttention) else x
    causal = {"causal": True} if isinstance(model, Causal) else {}
    assert found(model, inputs, Intended(masked=masked), **causal) is None


def test_declared_numbers_are_the_definition() -> None:
    assert found(Twice(), features(), scale=1 / 8) is None
    assert found(Capped(), features(), softcap=0.5) is None
    assert found(Capped(), features()) is None
    assert found(Capped(), features(), softcap=0.7).key == "softcap"
    assert found(ByHand(), features(), softcap=0.5).key == "softcap"


def test_dropped_weights_are_named() -> None:
    class Dropping(ByHand):
        def weights(self, scores: Tensor) -> Tensor:
            return F.dropout(scores.softmax(-1), 0.4)

    explanation = found(Dropping(), features())
    assert explanation is not None
    assert explanation.key == "dropout"


def test_a_finding_carries_it_in_words() -> None:
    finding = only("AS301", Twice(), features())
    text = finding.evidence["recomputed"]
    assert text.startswith("agrees to ")
    assert "scaled twice where the definition has 0.353553 = 1/√head_dim" in text
    assert "reference" not in text


def test_nothing_is_said_of_a_call_that_agrees() -> None:
    subject = Subject(ByHand(), features(), {})
    assert evidence_of(subject, subject.calls[0]) == {}
