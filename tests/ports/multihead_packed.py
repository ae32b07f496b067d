"""nn.MultiheadAttention by hand: one packed projection, length first, as in its source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import QKV, SCORES, Pair, Port
from .originals import HEADS, WIDTH, hidden, multihead


class PackedAttention(nn.Module):
    """Self- or cross-attention; inputs lie ``(length, batch, width)``."""

    def __init__(self, width: int = WIDTH, heads: int = HEADS) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.in_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_bias = nn.Parameter(torch.empty(3 * width))
        self.out = nn.Linear(width, width)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        weights, biases = self.in_weight.chunk(3), self.in_bias.chunk(3)
        return [
            F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)
        ]

    def folded(self, x: Tensor) -> Tensor:
        """Fold heads into the batch: ``(batch * heads, length, size)``."""
        length, batch, _ = x.shape
        return x.reshape(length, batch * self.heads, self.size).transpose(0, 1)

    def hidden(self, drop: Tensor) -> Tensor:
        return drop[:, None, None, :]

    def weigh(self, scores: Tensor, hide: Tensor) -> Tensor:
        shape = scores.shape
        scores = scores.view(-1, self.heads, *shape[1:]).masked_fill(hide, float("-inf"))
        return F.softmax(scores, dim=-1).view(shape)

    def scale(self) -> float:
        return self.size**-0.5

    def merged(self, y: Tensor, batch: int) -> Tensor:
        return y.transpose(0, 1).reshape(y.shape[1], batch, -1)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor
    ) -> Tensor:
        q, k, v = (self.folded(x) for x in self.project(query, key, value))
        scores = torch.bmm(q * self.scale(), k.transpose(1, 2))
        weights = self.weigh(scores, self.hidden(key_padding_mask))
        return self.out(self.merged(torch.bmm(weights, v), query.shape[1]))


@torch.no_grad()
def fill(module: PackedAttention, original: Any) -> None:
    module.in_weight.copy_(original.in_proj_weight)
    module.in_bias.copy_(original.in_proj_bias)
    module.out.load_state_dict(original.out_proj.state_dict())


def asked(queries: int = 7, keys: int = 10) -> dict[str, Any]:
    """Return a query of one length and keys of another, length first; True drops a key."""
    memory = hidden(2, keys, seed=5).transpose(0, 1)
    drop = torch.zeros(2, keys, dtype=torch.bool)
    drop[0, -4:] = True
    drop[1, -1:] = True
    return {
        "query": hidden(2, queries).transpose(0, 1),
        "key": memory,
        "value": memory,
        "key_padding_mask": drop,
    }


def pair(attention: type[PackedAttention] = PackedAttention) -> Callable[[], Pair]:
    def make() -> Pair:
        original = multihead(batch_first=False)
        module = attention().eval()
        fill(module, original)
        return Pair(module, original, asked())

    return make


class KeepsWhatItShouldDrop(PackedAttention):
    def hidden(self, drop: Tensor) -> Tensor:
        return ~drop[:, None, None, :]


class SeesAll(PackedAttention):
    def hidden(self, drop: Tensor) -> Tensor:
        return torch.zeros_like(drop)[:, None, None, :]


class ValueFirst(PackedAttention):
    def project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        weights, biases = self.in_weight.chunk(3), self.in_bias.chunk(3)
        order = (1, 2, 0)
        return [
            F.linear(x, weights[i], biases[i])
            for x, i in zip((query, key, value), order, strict=True)
        ]


class Transposed(PackedAttention):
    def project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        weights, biases = self.in_weight.chunk(3), self.in_bias.chunk(3)
        q = query @ weights[0] + biases[0]
        return [q, F.linear(key, weights[1], biases[1]), F.linear(value, weights[2], biases[2])]


class Batched(PackedAttention):
    """Folds as if the batch came first."""

    def folded(self, x: Tensor) -> Tensor:
        length, batch, _ = x.shape
        return x.reshape(batch * self.heads, length, self.size)


class NotPutBack(PackedAttention):
    def merged(self, y: Tensor, batch: int) -> Tensor:
        return y.reshape(y.shape[1], batch, -1)


class DropsBias(PackedAttention):
    def project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        weights, biases = self.in_weight.chunk(3), self.in_bias.chunk(3)
        return [
            F.linear(query, weights[0], biases[0]),
            F.linear(key, weights[1], biases[1]),
            F.linear(value, weights[2]),
        ]


class ScaledByAllHeads(PackedAttention):
    def scale(self) -> float:
        return float(self.heads * self.size) ** -0.5


class OverTheHeads(PackedAttention):
    """The softmax runs over the heads."""

    def weigh(self, scores: Tensor, hide: Tensor) -> Tensor:
        shape = scores.shape
        scores = scores.view(-1, self.heads, *shape[1:]).masked_fill(hide, -1e4)
        return F.softmax(scores, dim=1).view(shape)


class Sigmoid(PackedAttention):
    def weigh(self, scores: Tensor, hide: Tensor) -> Tensor:
        shape = scores.shape
        scores = scores.view(-1, self.heads, *shape[1:]).masked_fill(hide, float("-inf"))
        return scores.sigmoid().view(shape)


class NoKeyBias(PackedAttention):
    def project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        weights, biases = self.in_weight.chunk(3), self.in_bias.chunk(3)
        return [
            F.linear(query, weights[0], biases[0]),
            F.linear(key, weights[1]),
            F.linear(value, weights[2], biases[2]),
        ]


class ScaleOnKeys(PackedAttention):
    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor
    ) -> Tensor:
        q, k, v = (self.folded(x) for x in self.project(query, key, value))
        scores = torch.bmm(q, (k * self.scale()).transpose(1, 2))
        weights = self.weigh(scores, self.hidden(key_padding_mask))
        return self.out(self.merged(torch.bmm(weights, v), query.shape[1]))


class Absorbed(PackedAttention):
    """Keys are never projected: the queries take their matrix, as wide as the model."""

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor
    ) -> Tensor:
        weights, biases = self.in_weight.chunk(3), self.in_bias.chunk(3)
        q = F.linear(query, weights[0], biases[0]).unflatten(-1, (self.heads, self.size))
        q = torch.einsum("tbhd,hdw->bhtw", q, weights[1].view(self.heads, self.size, -1))
        scores = q @ key.permute(1, 2, 0)[:, None] * self.scale()
        hide = key_padding_mask[:, None, None, :]
        shares = scores.masked_fill(hide, float("-inf")).softmax(-1)
        v = F.linear(value, weights[2], biases[2]).unflatten(-1, (self.heads, self.size))
        return self.out(torch.einsum("bhqk,kbhd->qbhd", shares, v).flatten(2))


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"multihead-packed-{name}",
        reference="nn.MultiheadAttention",
        style="packed, length first",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


def sound(name: str, make: Callable[[], Pair]) -> Port:
    return Port(
        name=f"multihead-packed-{name}",
        reference="nn.MultiheadAttention",
        style="packed, length first",
        make=make,
    )


S = ("scores",)
PORTS = (
    fault("mask-kept", pair(KeepsWhatItShouldDrop), "mask-inverted", S, "inverted"),
    fault("sees-all", pair(SeesAll), "mask-missing", S, "padding"),
    fault("value-first", pair(ValueFirst), "split-order", QKV, "split as", "order"),
    fault("transposed", pair(Transposed), "weight-transposed", QKV, "transpose"),
    fault("folded-by-view", pair(Batched), "heads-by-view", QKV, "view"),
    fault("not-put-back", pair(NotPutBack), "merge-by-view", ("context", "output"), "view"),
    fault("value-bias-lost", pair(DropsBias), "projection-bias", ("v",), "bias"),
    fault("scaled-by-width", pair(ScaledByAllHeads), "scale", ("q", *SCORES), "d_model"),
    fault("over-the-heads", pair(OverTheHeads), "softmax-axis", ("scores", "weights"), "head"),
    fault("sigmoid", pair(Sigmoid), "normaliser", ("weights",), "sigmoid"),
)

SOUND = (
    sound("sound", pair()),
    sound("no-key-bias", pair(NoKeyBias)),
    sound("scale-on-keys", pair(ScaleOnKeys)),
    sound("absorbed", pair(Absorbed)),
)
