"""AS803: scores, dropped weights, means and others in the place of the weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.checks.marks import marked
from tests.checks.rules.by_scores import ByHand, Returning, features, found, line_of, only


class Scores(Returning):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT * 8**-0.5
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, d)), scores  # scores


class Dropped(Returning):
    def weights(self, scores: Tensor) -> Tensor:
        return F.dropout(scores.softmax(-1), 0.4, self.training)


class Mixed(Returning):
    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = super().attend(x)
        return y, weights.reshape(self.heads, len(x), *weights.shape[2:])


class Again(Returning):
    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = super().attend(x)
        return y, weights.softmax(-1)


class Exchanged(Returning):
    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = super().attend(x)
        return y, weights.mT


class OverQueries(ByHand):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        shown = (q @ k.mT * 8**-0.5).softmax(-2)
        return self.out(y.transpose(1, 2).reshape(b, n, d)), shown


class MeanForAll(Returning):
    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = super().attend(x)
        return y, weights.mean(1, keepdim=True).expand_as(weights)


class SecondHeadForAll(Returning):
    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = super().attend(x)
        return y, weights[:, 1:2].repeat(1, self.heads, 1, 1)


class MeanForAllSamples(Returning):
    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = super().attend(x)
        return y, weights.mean(0, keepdim=True).expand_as(weights)


class Softer(Returning):
    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = super().attend(x)
        return y, (weights.log() / 2).softmax(-1)


class KeysFirst(ByHand):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = (k @ q.mT * 8**-0.5).softmax(-2)
        y = torch.einsum("bhkq,bhkd->bqhd", weights, v)
        return self.out(y.reshape(b, n, d)), weights


class Maps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(24, 3, batch_first=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.attention(x, x, x)  # type: ignore[no-any-return]


class MapsOfEveryHead(Maps):
    """Return the output and the maps of every head."""


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Scores, "the scores before the softmax"),
        (Dropped, "the weights after dropout"),
        (Mixed, "the weights with heads and samples mixed up"),
        (Again, "the weights after a second softmax"),
        (Exchanged, "the weights with queries and keys exchanged"),
        (OverQueries, "the scores' softmax over the queries"),
        (MapsOfEveryHead, "their mean over the heads"),
        (MeanForAll, "their mean over the heads, repeated for each head,"),
        (SecondHeadForAll, "the weights of head 1, repeated for each head,"),
        (MeanForAllSamples, "their mean over the samples, repeated for each sample,"),
        (Softer, "the softmax of 0.5 times the scores"),
    ],
)
def test_what_is_returned_is_named(kind: type[nn.Module], what: str) -> None:
    finding = only("AS803", kind(), features(batch=2))
    assert (finding.severity, finding.evidence["is"]) == ("error", what)
    apart = finding.evidence.get("differs_from_weights")  # nothing, where the shape is another one
    assert (apart is None) is (kind is MapsOfEveryHead)
    assert apart is None or apart > 1e-3


def test_the_line_is_that_which_hands_it_out() -> None:
    assert line_of(only("AS803", Scores(), features())) == marked(__file__, "scores")


class Layers(nn.Module):
    """Two layers, whose maps are joined in some way."""

    def __init__(
        self, kind: type[Returning], joined: Callable[[list[Tensor]], Tensor | list[Tensor]]
    ) -> None:
        super().__init__()
        self.layers, self.joined = nn.ModuleList((kind(), kind())), joined

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | list[Tensor]]:
        maps = []
        for layer in self.layers:
            y, seen = layer(x)
            x = x + y
            maps.append(seen)
        return x, self.joined(maps)


@pytest.mark.parametrize(
    "joined",
    [
        torch.stack,
        partial(torch.cat, dim=1),
        lambda maps: torch.stack(maps, 1).flatten(1, 2).permute(0, 2, 3, 1),
    ],
)
def test_maps_of_layers_are_judged_one_by_one(joined: Callable[[list[Tensor]], Tensor]) -> None:
    finding = only("AS803", Layers(Scores, joined), features(batch=2))
    assert finding.evidence["is"] == "the scores before the softmax"
    assert line_of(finding) == marked(__file__, "scores")
    assert not found("AS803", Layers(Returning, joined), features(batch=2))


@pytest.mark.parametrize(("kept", "fires"), [((1, 1), True), ((0, 1), False), ((1, 0), False)])
def test_a_map_of_another_layer_is_no_map_of_its_own(kept: tuple[int, ...], fires: bool) -> None:  # noqa: FBT001  a case
    model = Layers(Returning, lambda maps: [maps[at] for at in kept])
    findings = found("AS803", model, features(batch=2))
    told = [each.evidence["is"] for each in findings]
    assert told == (["the weights of call 1 in the place of those"] if fires else [])


def test_a_mean_that_nobody_calls_a_head_is_a_note() -> None:
    assert only("AS803", Maps(), features()).severity == "note"


def test_dropout_of_training_is_no_matter_of_a_model_in_eval_mode() -> None:
    assert not found("AS803", Dropped().eval(), features())


def test_the_weights_themselves_are_right() -> None:
    assert not found("AS803", Returning(), features())
    assert not found("AS803", nn.MultiheadAttention(24, 3), (torch.randn(5, 2, 24),) * 3)


def test_keys_before_queries_are_right_where_the_whole_code_has_them_so() -> None:
    assert not found("AS803", KeysFirst(), features())


class Intermediates(ByHand):
    """What is handed out says by its name what it is."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Any]]:  # type: ignore[override]
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT * 8**-0.5
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))
        return y, {"attn_intermediates": {self.name: scores, "values": v, "cached_kv": (k, v)}}


@pytest.mark.parametrize(
    ("name", "fires"), [("qk_similarities", False), ("pre_softmax_attn", False), ("attn", True)]
)
def test_a_name_that_says_what_it_is_promises_no_weights(name: str, fires: bool) -> None:  # noqa: FBT001  a case
    assert bool(found("AS803", Intermediates(name), features(batch=2))) is fires
