"""Which tokens reach which others: by definition, in many layouts, whatever the mask is."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnscope.checks.subject.subject import Subject
from attnscope.checks.visibility.layer import Layer
from attnscope.checks.visibility.layers import layers_of

LENGTH = 6


def layers(model: Any, inputs: Any, **expect: Any) -> tuple[Layer, ...]:
    return layers_of(Subject(model.eval(), inputs, expect))


def features(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


class Masked(nn.Module):
    def __init__(self, seen: Tensor, *, style: str, sharp: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.seen, self.style, self.sharp = seen, style, sharp
        self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 3, 4).permute(2, 0, 3, 1, 4)
        q = q * self.sharp
        context = getattr(self, self.style)(q, k, v)
        return self.out(context.transpose(1, 2).reshape(b, t, c))

    def kernel(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.seen)

    def filled(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = (q @ k.mT / 2).masked_fill(~self.seen, -1e9)
        return scores.softmax(-1) @ v

    def renormalised(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights = (q @ k.mT / 2).softmax(-1) * self.seen
        return weights / weights.sum(-1, keepdim=True) @ v

    def rectified(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT / 2).relu().masked_fill(~self.seen, 0.0) @ v / LENGTH

    def head_by_head(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads = [self.filled(q[:, h : h + 1], k[:, h : h + 1], v[:, h : h + 1]) for h in range(3)]
        return torch.cat(heads, 1)


SEEN = {
    "causal": torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(),
    "window": torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(1).triu(-1),
    "all": torch.ones(LENGTH, LENGTH, dtype=torch.bool),
}


@pytest.mark.parametrize("style", ["kernel", "filled", "renormalised", "head_by_head"])
@pytest.mark.parametrize("name", SEEN)
def test_what_is_visible_is_what_the_mask_lets_through(style: str, name: str) -> None:
    found = layers(Masked(SEEN[name], style=style), features(2, LENGTH, 12))
    assert len(found) == 1
    assert found[0].own
    assert torch.equal(found[0].visible, SEEN[name].expand(2, LENGTH, LENGTH))


def test_a_saturated_softmax_hides_nothing() -> None:
    (layer,) = layers(Masked(SEEN["causal"], style="kernel", sharp=1e4), features(2, LENGTH, 12))
    assert torch.equal(layer.visible, SEEN["causal"].expand(2, LENGTH, LENGTH))


def test_nothing_hidden_is_seen_where_weights_are_rectified() -> None:
    (layer,) = layers(Masked(SEEN["causal"], style="rectified"), features(2, LENGTH, 12))
    assert not (layer.visible & ~SEEN["causal"]).any()


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("batch", [1, 2, LENGTH])
def test_layers_of_torch_in_either_order(batch_first: bool, batch: int) -> None:  # noqa: FBT001  a parameter
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(2)
            self.attend = nn.MultiheadAttention(12, 3, batch_first=batch_first)

        def forward(self, x: Tensor) -> Any:
            later = ~SEEN["causal"]
            return self.attend(x, x, x, attn_mask=later, need_weights=False)[0]

    x = features(batch, LENGTH, 12)
    axis = 0 if batch_first else 1
    (layer,) = layers(Encoder(), x if batch_first else x.transpose(0, 1), batch_axis=axis)
    assert torch.equal(layer.visible, SEEN["causal"].expand(batch, LENGTH, LENGTH))


def test_keys_in_blocks_are_tokens_all_the_same() -> None:
    class Buckets(nn.Module):
        """A query sees its own block of two."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(3)
            self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)

        def forward(self, x: Tensor) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(x).view(b, t // 2, 2, 3, 12).permute(3, 0, 1, 2, 4)
            weights = (q @ k.mT / math.sqrt(12)).softmax(-1)
            return self.out((weights @ v).reshape(b, t, c))

    (layer,) = layers(Buckets(), features(3, LENGTH, 12))
    block = torch.arange(LENGTH) // 2
    assert torch.equal(layer.visible[0], block[:, None] == block)


def test_cross_attention_reads_the_memory() -> None:
    class Crosses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(4)
            self.own = nn.MultiheadAttention(12, 3, batch_first=True)
            self.cross = nn.MultiheadAttention(12, 3, batch_first=True)

        def forward(self, x: Tensor, memory: Tensor, drop: Tensor) -> Any:
            x = x + self.own(x, x, x, need_weights=False)[0]
            return x + self.cross(x, memory, memory, key_padding_mask=drop, need_weights=False)[0]

    drop = torch.arange(5) >= torch.tensor([[5], [3]])
    inputs = {"x": features(2, LENGTH, 12), "memory": features(2, 5, 12), "drop": drop}
    own, cross = layers(Crosses(), inputs)
    assert (own.own, own.reads) == (True, frozenset({"x"}))
    assert (cross.own, cross.reads) == (False, frozenset({"memory"}))
    assert torch.equal(cross.visible, ~drop[:, None].expand(2, LENGTH, 5))


def test_the_run_is_left_as_it_was() -> None:
    model = Masked(SEEN["causal"], style="filled").eval()
    subject = Subject(model, features(2, LENGTH, 12))
    before = subject.calls[0].context().clone()
    (layer,) = layers_of(subject)
    assert layer.visible.any()
    assert torch.equal(subject.calls[0].context(), before)


class Decoder(nn.Module):
    """Two rounds of attention of answers to themselves and to questions, with or without x + …."""

    def __init__(self, *, residual: bool) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.residual = residual
        self.own = nn.ModuleList(nn.MultiheadAttention(12, 3, batch_first=True) for _ in range(2))
        self.cross = nn.ModuleList(nn.MultiheadAttention(12, 3, batch_first=True) for _ in range(2))

    def forward(self, questions: Tensor, answers: Tensor) -> Tensor:
        x = answers
        for own, cross in zip(self.own, self.cross, strict=True):
            read = own(x, x, x)[0]
            x = x + read if self.residual else read
            read = cross(x, questions, questions)[0]
            x = x + read if self.residual else read
        return x


@pytest.mark.parametrize("residual", [True, False])
def test_what_a_sequence_has_read_is_not_what_it_carries(residual: bool) -> None:  # noqa: FBT001  a case
    inputs = {"questions": features(2, LENGTH, 12), "answers": features(2, LENGTH, 12) + 1}
    found = [layer for layer in layers(Decoder(residual=residual), inputs) if "own" in layer.module]
    both = {"questions", "answers"}
    assert [layer.reads for layer in found] == [{"answers"}, both]
    assert [layer.carries for layer in found] == [{"answers"}, {"answers"} if residual else both]
