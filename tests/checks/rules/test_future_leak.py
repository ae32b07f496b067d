"""AS201: in attention and beside it, where and how far the future is seen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.checks.marks import marked
from tests.checks.rules import by_future
from tests.checks.rules.by_future import (
    CAUSAL,
    ByHand,
    Compared,
    HidesNothing,
    NearOnBothSides,
    NoMask,
    OneTooFar,
    Opened,
    Right,
    Strict,
    Weak,
    features,
    found,
    only,
)


@pytest.mark.parametrize(
    ("kind", "mark", "furthest"),
    [
        (NoMask, "the softmax", (0, 8)),
        (HidesNothing, "hides nothing", (0, 8)),
        (NearOnBothSides, "near on both sides", (0, 2)),
        (OneTooFar, "one too far", (0, 1)),
        (Compared, "compared", (0, 1)),
        (Weak, "too weak", (0, 8)),
        (Opened, "opened", (4, 8)),
    ],
)
def test_the_line_is_that_which_lets_the_future_in(
    kind: type[ByHand], mark: str, furthest: tuple[int, int]
) -> None:
    finding = only(kind(), features(), CAUSAL)
    assert finding.source is not None
    assert finding.source.line == marked(by_future.__file__, mark)
    assert (finding.evidence["query"], finding.evidence["key"]) == furthest
    assert finding.evidence["moved_before"] > 100 * finding.evidence["noise"]


@pytest.mark.parametrize("kind", [Right, Strict], ids=["causal", "nothing seen by the first"])
def test_what_hides_all_later_positions_is_silent(kind: type[ByHand]) -> None:
    assert not found(kind(), features(), CAUSAL)


def test_without_a_word_about_it_nothing_is_said() -> None:
    assert not found(NoMask(), features())
    assert not found(NoMask(), features(), {"causal": False})


def test_single_heads_samples_and_two_tokens() -> None:
    assert only(NoMask(heads=1), features(2, batch=1), CAUSAL).evidence["key"] == 1
    assert not found(Right(heads=1), features(2, batch=1), CAUSAL)
    assert not found(NoMask(), features(1), CAUSAL)


def test_as_many_samples_as_tokens() -> None:
    assert only(OneTooFar(), features(4, batch=4), CAUSAL).evidence["query"] == 0
    assert not found(Right(), features(4, batch=4), CAUSAL)


# -- whose fault it is ---------------------------------------------------------------------------


class Maskable(ByHand):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class OnlyTheFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Maskable() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        for at, block in enumerate(self.blocks):
            x = x + block(x, seen if at == 0 else None)  # the caller
        return x


def test_where_other_layers_run_the_same_line_well_the_caller_is_named() -> None:
    finding = only(OnlyTheFirst(), features(), CAUSAL)
    assert finding.source is not None
    assert finding.source.line == marked(__file__, "the caller")
    assert finding.module == "blocks.1"
    assert finding.also == ("blocks.2",)


class Library(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        layer = nn.TransformerEncoderLayer(24, 4, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Any:
        return self.encoder(x)  # without a mask


class Hinted(Library):
    def forward(self, x: Tensor) -> Any:
        return self.encoder(x, is_causal=True)  # a hint


class Passed(Library):
    def forward(self, x: Tensor) -> Any:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.encoder(x, mask=mask, is_causal=True)


@pytest.mark.parametrize(("kind", "mark"), [(Library, "without a mask"), (Hinted, "a hint")])
def test_for_layers_of_torch_it_is_the_line_that_calls_them(kind: type[Library], mark: str) -> None:
    finding = only(kind(), features(), CAUSAL)
    assert finding.source is not None
    assert finding.source.line == marked(__file__, mark)


def test_a_mask_passed_to_a_layer_of_torch_is_silent() -> None:
    assert not found(Passed(), features(), CAUSAL)


class InTrainMode(Right):
    def hidden(self, scores: Tensor) -> Tensor:
        return scores if self.training else super().hidden(scores)


def test_a_leak_in_train_mode_alone_is_found_there() -> None:
    finding = only(InTrainMode(), features(), CAUSAL)
    assert finding.evidence["modes"] == ["train mode"]
    assert finding.source is not None
    assert finding.source.line == marked(by_future.__file__, "the softmax")


# -- beside attention ----------------------------------------------------------------------------


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend = Right()
        self.conv = nn.Conv1d(24, 24, 3, padding=1)

    def forward(self, x: Tensor) -> Any:
        x = x + self.attend(x)
        return self.conv(x.mT).mT  # looks ahead


class Centred(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend = Right()

    def forward(self, x: Tensor) -> Tensor:
        x = self.attend(x)
        return x - x.mean(1, keepdim=True)  # centred


@pytest.mark.parametrize(("kind", "mark"), [(Convolved, "looks ahead"), (Centred, "centred")])
def test_what_mixes_positions_beside_attention_is_named(kind: type[nn.Module], mark: str) -> None:
    finding = only(kind(), features(), CAUSAL)
    assert finding.source is not None
    assert finding.source.line == marked(__file__, mark)
    assert "no attention lets the future in" in finding.message


def test_a_norm_over_the_batch_in_train_mode_is_no_leak() -> None:
    class Normed(Right):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(24)

        def forward(self, x: Tensor) -> Any:
            return self.norm(super().forward(x).mT).mT

    assert not found(Normed(), features(), CAUSAL)
