"""BLOOM as its paper says it: distances, slopes, one matrix a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import QKV, Pair, Port
from .originals import HEADS, WIDTH, bloom, token_ids

SIZE = WIDTH // HEADS


class Attention(nn.Module):
    """Queries, keys and values by matrices of their own; the bias falls with the distance."""

    def __init__(self) -> None:
        super().__init__()
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def slopes(self) -> Tensor:
        return 2.0 ** (-8.0 * torch.arange(1, HEADS + 1) / HEADS)

    def bias(self, length: int) -> Tensor:
        t = torch.arange(length)
        return self.slopes()[:, None, None] * -(t[:, None] - t[None, :]).abs()

    def forward(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q, k, v = (
            part(x).reshape(n, t, HEADS, SIZE).permute(0, 2, 1, 3)
            for part in (self.w_q, self.w_k, self.w_v)
        )
        scores = torch.matmul(q * SIZE**-0.5, k.mT) + self.bias(t)
        scores = scores + torch.triu(torch.full((t, t), -torch.inf), diagonal=1)
        return self.w_o((F.softmax(scores, -1) @ v).permute(0, 2, 1, 3).reshape(n, t, -1))


class Layer(nn.Module):
    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.norm_a, self.norm_b = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.expand, self.shrink = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(self.norm_a(x)) + x
        return self.shrink(F.gelu(self.expand(self.norm_b(x)), approximate="tanh")) + x


class Model(nn.Module):
    def __init__(self, config: Any, attention: type[Attention]) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocab_size, WIDTH)
        self.first = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer(attention()) for _ in range(config.n_layer))
        self.last = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.first(self.words(ids))
        for layer in self.layers:
            x = layer(x)
        return self.last(x)


def unfused(fused: Tensor, *, three_first: bool = False) -> list[Tensor]:
    """Cut a fused projection, whose rows are heads of three parts, into q, k and v."""
    parts = fused.unflatten(0, (3, HEADS, SIZE) if three_first else (HEADS, 3, SIZE))
    return [part.flatten(0, 1) for part in parts.unbind(0 if three_first else 1)]


@torch.no_grad()
def fill(model: Any, original: Any, *, three_first: bool = False) -> None:
    model.words.load_state_dict(original.word_embeddings.state_dict())
    model.first.load_state_dict(original.word_embeddings_layernorm.state_dict())
    model.last.load_state_dict(original.ln_f.state_dict())
    for layer, theirs in zip(model.layers, original.h, strict=True):
        mine, fused = layer.attention, theirs.self_attention.query_key_value
        for name in ("weight", "bias"):
            cut = unfused(getattr(fused, name), three_first=three_first)
            for part, value in zip((mine.w_q, mine.w_k, mine.w_v), cut, strict=True):
                getattr(part, name).copy_(value)
        mine.w_o.load_state_dict(theirs.self_attention.dense.state_dict())
        layer.norm_a.load_state_dict(theirs.input_layernorm.state_dict())
        layer.norm_b.load_state_dict(theirs.post_attention_layernorm.state_dict())
        layer.expand.load_state_dict(theirs.mlp.dense_h_to_4h.state_dict())
        layer.shrink.load_state_dict(theirs.mlp.dense_4h_to_h.state_dict())


def pair(
    attention: type[Attention] = Attention, *, three_first: bool = False
) -> Callable[[], Pair]:
    def make() -> Pair:
        original = bloom()
        model = Model(original.config, attention).eval()
        fill(model, original, three_first=three_first)
        return Pair(model, original, (token_ids(),))

    return make


class FarIsNear(Attention):
    def bias(self, length: int) -> Tensor:
        return -super().bias(length)


class SteeperSlopes(Attention):
    def slopes(self) -> Tensor:
        return 2.0 ** (-8.0 * torch.arange(HEADS) / HEADS)


class OneSlope(Attention):
    def slopes(self) -> Tensor:
        return torch.full((HEADS,), 0.25)


class NoDistance(Attention):
    def bias(self, length: int) -> Tensor:
        return torch.zeros(length, length)


class BiasFirst(Attention):
    """The distance is scaled together with the products."""

    def forward(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q, k, v = (
            part(x).reshape(n, t, HEADS, SIZE).permute(0, 2, 1, 3)
            for part in (self.w_q, self.w_k, self.w_v)
        )
        scores = (torch.matmul(q, k.mT) + self.bias(t)) * SIZE**-0.5
        scores = scores + torch.triu(torch.full((t, t), -torch.inf), diagonal=1)
        return self.w_o((F.softmax(scores, -1) @ v).permute(0, 2, 1, 3).reshape(n, t, -1))


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"bloom-alibi-{name}",
        reference="BLOOM",
        style="matrices of their own",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


S = ("scores",)
PORTS = (
    fault("far-is-near", pair(FarIsNear), "bias-sign", S, "sign"),
    fault("steeper-slopes", pair(SteeperSlopes), "bias-slope", S, "4 times"),
    fault("one-slope", pair(OneSlope), "bias-slope", S, "slope", "head", also=("bias-heads",)),
    fault("no-distance", pair(NoDistance), "bias-missing", S, "bias"),
    fault("bias-first", pair(BiasFirst), "bias-slope", S, "0.35", also=("bias-scaled",)),
    fault(
        "three-first",
        pair(three_first=True),
        "split-order",
        QKV,
        "order",
        "interleave",
        "head",
        also=("heads-permuted",),
    ),
)

SOUND = (
    Port(
        name="bloom-alibi-sound",
        reference="BLOOM",
        style="matrices of their own",
        make=pair(),
    ),
)
