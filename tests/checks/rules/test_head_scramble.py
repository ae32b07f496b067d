"""AS103: heads split or merged by a view of the wrong order, and what only looks like it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnscope.checks.rules.head_scramble import RULE
from attnscope.checks.structure.ragged import is_ragged
from tests.checks.small import SelfAttention, checked, line_of, noise, the_finding

X = noise(2, 5, 16)


class SplitByView(SelfAttention):
    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.heads, x.shape[1], -1)


class SplitIntoRows(SelfAttention):
    """(batch·heads, length, head_dim), without a transpose."""

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0] * self.heads, x.shape[1], -1)

    def merge(self, context: Tensor) -> Tensor:
        return context.reshape(-1, context.shape[1], 16)


class MergedByView(SelfAttention):
    def merge(self, context: Tensor) -> Tensor:
        return context.reshape(context.shape[0], context.shape[2], -1)


class MergedInOtherOrder(SelfAttention):
    """Heads lie behind the samples and are taken as if before them."""

    def split(self, x: Tensor) -> Any:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2).flatten(0, 1)

    def merge(self, context: Tensor) -> Any:
        b = context.shape[0] // self.heads
        return context.unflatten(0, (self.heads, b)).permute(1, 2, 0, 3).flatten(2)


class HeadByHead(SelfAttention):
    def attend(self, x: Tensor) -> Any:
        parts = []
        for q, k, v in zip(
            *(part.chunk(self.heads, -1) for part in self.qkv(x).chunk(3, -1)), strict=True
        ):
            parts.append((q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v)
        return self.out(self.join(parts))

    def join(self, parts: list[Tensor]) -> Tensor:
        return torch.cat(parts, -1)


class StackedHeads(HeadByHead):
    def join(self, parts: list[Tensor]) -> Tensor:
        return torch.stack(parts, 1).reshape(*parts[0].shape[:2], -1)


class KeysByShape(SelfAttention):
    """The keys get the shape that the product wants, and stay where they are."""

    def attend(self, x: Tensor) -> Any:
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        b, h, n, d = k.shape
        turned = k.reshape(b, h, d, n)
        return self.out(self.merge((q @ turned / math.sqrt(d)).softmax(-1) @ v))


class ContextByShape(SelfAttention):
    def merge(self, context: Tensor) -> Tensor:
        turned = context.mT
        return turned.reshape(turned.shape[0], turned.shape[-1], -1)


class Channels(SelfAttention):
    """The features of a head attend to one another."""

    def split(self, x: Tensor) -> Any:
        return x.unflatten(-1, (self.heads, -1)).permute(0, 2, 3, 1)

    def merge(self, context: Tensor) -> Tensor:
        return context.permute(0, 3, 1, 2).flatten(2)


class HalfFromBefore(SelfAttention):
    """Half of the features of a head come from the token before."""

    def split(self, x: Tensor) -> Any:
        own, before = x.unflatten(-1, (self.heads, -1)).transpose(1, 2).chunk(2, -1)
        return torch.cat((own, before.roll(1, 2)), -1)


BY_SHAPE = [
    (KeysByShape(), "k", "turned = k.reshape(b, h, d, n)"),
    (ContextByShape(), "out", "return turned.reshape(turned.shape[0], turned.shape[-1], -1)"),
]


@pytest.mark.parametrize("length", [4, 8, 16, 24])
@pytest.mark.parametrize(("model", "side", "line"), BY_SHAPE, ids=["k", "out"])
def test_a_reshape_in_the_place_of_a_transpose(
    model: nn.Module, side: str, line: str, length: int
) -> None:
    finding = the_finding(checked(model, noise(2, length, 16), "AS103"))
    assert finding.evidence["side"] == side
    assert line_of(finding) == line
    assert "swaps no axes" in finding.message


@pytest.mark.parametrize("length", [4, 8, 16, 24])
@pytest.mark.parametrize("model", [SelfAttention(), Channels(), HalfFromBefore()])
def test_features_that_are_elsewhere_on_purpose_are_silent(model: nn.Module, length: int) -> None:
    assert checked(model, noise(2, length, 16), "AS103").findings == ()


class FromPictures(nn.Module):
    """Tokens that the model cuts itself."""

    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 16, 4, 4)
        self.attention = attention

    def forward(self, pixels: Tensor) -> Any:
        return self.attention(self.cut(pixels).flatten(2).transpose(1, 2)).mean(1)


@pytest.mark.parametrize(
    ("model", "side", "line"),
    [
        (SplitByView(), "q", "return x.reshape(x.shape[0], self.heads, x.shape[1], -1)"),
        (SplitIntoRows(), "q", "return x.reshape(x.shape[0] * self.heads, x.shape[1], -1)"),
        (MergedByView(), "out", "return context.reshape(context.shape[0], context.shape[2], -1)"),
        (StackedHeads(), "out", "return torch.stack(parts, 1).reshape(*parts[0].shape[:2], -1)"),
        (
            MergedInOtherOrder(),
            "out",
            "return context.unflatten(0, (self.heads, b)).permute(1, 2, 0, 3).flatten(2)",
        ),
    ],
)
def test_a_scramble_is_found_at_its_line(model: nn.Module, side: str, line: str) -> None:
    finding = the_finding(checked(model, noise(3, 5, 16), "AS103", "AS102", batch_axis=0))
    assert (finding.code, finding.severity) == ("AS103", "error")
    assert finding.evidence["side"] == side
    assert line_of(finding) == line


def test_it_says_where_a_token_lands() -> None:
    finding = the_finding(checked(SplitByView(heads=4), noise(2, 7, 16), "AS103"))
    assert "token 0 land in q at head 0 positions 0 to 3 instead of" in finding.message
    finding = the_finding(checked(MergedByView(), X, "AS103"))
    assert "head 0 to token 0, head 1 to token 2" in finding.message
    finding = the_finding(checked(MergedInOtherOrder(), noise(3, 5, 16), "AS103"))
    assert "head 1 to token 0 of sample 1" in finding.message
    assert finding.fix != RULE.fix


@pytest.mark.parametrize("length", [4, 8, 6])
def test_lengths_that_the_heads_divide_show_it_too(length: int) -> None:
    assert the_finding(checked(SplitByView(), noise(2, length, 16), "AS103")).code == "AS103"


def test_in_layers_of_one_class_it_is_one_finding() -> None:
    stacked = nn.Sequential(SplitByView(), SplitByView())
    assert len(checked(stacked, X, "AS103").findings) == 1


def test_tokens_that_a_model_cuts_itself_have_their_axis() -> None:
    finding = the_finding(checked(FromPictures(SplitByView()), noise(2, 3, 12, 16), "AS103"))
    assert "x.reshape(" in line_of(finding)


class Windows(SelfAttention):
    def attend(self, x: Tensor) -> Any:
        whole = super().attend(x.unflatten(1, (-1, 2)).flatten(0, 1))
        return whole.unflatten(0, (x.shape[0], -1)).flatten(1, 2)


class Axial(SelfAttention):
    def forward(self, x: Tensor) -> Any:
        b, h, w, _ = x.shape
        rows = self.attend(x.flatten(0, 1)).unflatten(0, (b, h)).transpose(1, 2)
        return self.attend(rows.flatten(0, 1)).unflatten(0, (b, w)).transpose(1, 2)


class Folded(SelfAttention):
    """(length, batch·heads, head_dim), as fairseq writes it."""

    def forward(self, x: Tensor) -> Any:
        t, b, c = x.shape
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (p.contiguous().view(t, b * self.heads, -1).transpose(0, 1) for p in parts)
        weights = torch.bmm(q, k.mT).softmax(-1)
        return self.out(torch.bmm(weights, v).transpose(0, 1).contiguous().view(t, b, c))


class Looks(SelfAttention):
    """Buckets of keys, each with the one before."""

    def attend(self, x: Tensor) -> Any:
        q, k, v = (
            part.unflatten(1, (-1, 2)).unflatten(-1, (self.heads, -1)).permute(0, 3, 1, 2, 4)
            for part in self.qkv(x).chunk(3, -1)
        )
        k, v = (torch.cat((part, part.roll(1, 2)), 3) for part in (k, v))
        context = F.scaled_dot_product_attention(q, k, v)
        return self.out(context.permute(0, 2, 3, 1, 4).flatten(1, 2).flatten(2))


class Convolved(SelfAttention):
    def __init__(self) -> None:
        super().__init__()
        self.smooth = nn.Conv1d(16, 16, 3, padding=1)

    def attend(self, x: Tensor) -> Any:
        return super().attend(self.smooth(x.mT).mT)


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (SelfAttention(), X),
        (SelfAttention(heads=1), X),
        (HeadByHead(), X),
        (Windows(), noise(2, 6, 16)),
        (Axial(), noise(2, 3, 5, 16)),
        (Folded(), noise(5, 2, 16)),
        (Looks(), noise(2, 6, 16)),
        (Convolved(), X),
        (FromPictures(SelfAttention()), noise(2, 3, 12, 16)),
        (nn.MultiheadAttention(16, 2, batch_first=True), (X, X, X)),
        (SplitByView(), noise(2, 1, 16)),
    ],
)
def test_what_only_looks_like_it_is_silent(model: nn.Module, inputs: object) -> None:
    assert not checked(model, inputs, "AS102", "AS103", "AS106").findings


class Volume(nn.Module):
    """Frames of each pixel: space goes into the rows, by a reshape or by a permute before it."""

    def __init__(self, *, turned: bool) -> None:
        super().__init__()
        self.turned, self.attention = turned, SelfAttention()

    def forward(self, clip: Tensor) -> Any:
        b, f, c, h, w = clip.shape
        if self.turned:
            clip = clip.permute(0, 3, 4, 1, 2)
        rows = clip.reshape(b * h * w, f, c)
        return self.attention(rows)


def test_a_reshape_before_the_projection_that_cuts_across_axes() -> None:
    finding = the_finding(checked(Volume(turned=False), noise(2, 5, 16, 3, 4), "AS103"))
    assert line_of(finding) == "rows = clip.reshape(b * h * w, f, c)"
    assert finding.evidence["reshaped"] == [24, 5, 16]
    assert not checked(Volume(turned=True), noise(2, 5, 16, 3, 4), "AS103").findings


@pytest.mark.parametrize(
    ("before", "after", "cuts"),
    [
        ((3, 4, 17, 12), (3, 17, 48), True),
        ((6, 35, 12), (3, 24, 35), True),
        ((3, 17, 48), (3, 17, 4, 12), False),
        ((3, 16, 5), (3, 4, 20), False),  # four frames stacked
        ((2, 3, 4), (24,), False),
        ((3, 1, 5), (1, 15), False),
    ],
)
def test_reshapes_that_cut_across_axes(
    before: tuple[int, ...],
    after: tuple[int, ...],
    cuts: bool,  # noqa: FBT001  a case
) -> None:
    assert is_ragged(before, after) is cuts
