"""A small causal model with a cache, each part of which can be replaced by a faulty one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY, WIDTH, HEADS, TABLE = 29, 16, 2, 32

Past = tuple[Tensor, Tensor]


def causal(queries: int, keys: int) -> Tensor:
    """Return what may attend, the last query to all keys."""
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def corner(queries: int, keys: int) -> Tensor:
    return torch.ones(queries, keys, dtype=torch.bool).tril()


def all_seen(queries: int, keys: int) -> Tensor:
    return torch.ones(queries, keys, dtype=torch.bool)


def window_of_four(queries: int, keys: int) -> Tensor:
    return causal(queries, keys) & ~causal(queries, keys).tril(keys - queries - 4)


def one_by_one(queries: int, keys: int) -> Tensor:
    """Return a mask for whole passes and single tokens that forgets chunks."""
    return causal(queries, keys) if queries == keys else all_seen(queries, keys)


def counted(start: int, length: int) -> Tensor:
    return torch.arange(start, start + length)


def started_anew(start: int, length: int) -> Tensor:
    del start
    return torch.arange(length)


def one_late(start: int, length: int) -> Tensor:
    return torch.arange(start, start + length) + (start > 0)


def clamped(start: int, length: int) -> Tensor:
    return torch.arange(start, start + length).clamp(max=7)


def as_it_is(x: Tensor) -> Tensor:
    return x


def over_the_batch(x: Tensor) -> Tensor:
    """Return x less the mean over the batch of what differs from its first sample."""
    return x - 0.5 * (x - x[:1]).mean(0, keepdim=True)


def squeezed(x: Tensor) -> Tensor:
    return x.squeeze()


def grown(old: Tensor, new: Tensor) -> Tensor:
    return torch.cat((old, new), 2)


def late(old: Tensor, new: Tensor) -> Tensor:
    """Return the old keys and the new ones, the last old one lost."""
    return torch.cat((old[:, :, :-1], new[:, :, :1], new), 2)


@dataclass
class Output:
    logits: Tensor
    past: Past | None


class Model(nn.Module):
    """Embeddings, one attention, and a head."""

    def __init__(
        self,
        *,
        seen: Callable[[int, int], Tensor] = causal,
        places: Callable[[int, int], Tensor] = counted,
        change: Callable[[Tensor], Tensor] = as_it_is,
        grow: Callable[[Tensor, Tensor], Tensor] = grown,
        train_scale: float = 1.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.seen, self.places, self.change, self.grow = seen, places, change, grow
        self.train_scale = train_scale
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TABLE, WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in self.parameters():
                size = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.2
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 2 * size)
        self.eval()

    def attended(self, ids: Tensor, keep: Tensor | None, past: Past | None) -> tuple[Tensor, Past]:
        start = past[0].shape[2] if past is not None else 0
        x = self.tokens(ids) + self.positions(self.places(start, ids.shape[1]))
        x = self.change(x)
        q, k, v = (
            p(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in (self.q, self.k, self.v)
        )
        if past is not None:
            k, v = self.grow(past[0], k), self.grow(past[1], v)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        visible = self.seen(q.shape[2], k.shape[2])
        if keep is not None:
            visible = visible & keep.bool()[:, None, None]
        scores = scores.masked_fill(~visible, -1e9)
        if self.training:
            scores = scores * self.train_scale
        context = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return x + self.drop(self.o(context)), (k, v)


class Plain(Model):
    """Without a cache."""

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        logits: Tensor = self.head(self.attended(ids, attention_mask, None)[0])
        return logits


class WithCache(Model):
    """With a cache that is handed out as an attribute."""

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, past: Past | None = None
    ) -> Output:
        x, past = self.attended(ids, attention_mask, past)
        return Output(self.head(x), past)


class WithTuple(Model):
    """With a cache that is the last item of a tuple."""

    def forward(
        self, ids: Tensor, attention_mask: Tensor | None = None, past: Past | None = None
    ) -> tuple[Tensor, Past]:
        x, past = self.attended(ids, attention_mask, past)
        return self.head(x), past


class KeepingCache(Model):
    """With a cache of its own."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.past: Past | None = None

    def reset(self) -> None:
        self.past = None

    def forward(self, ids: Tensor) -> Tensor:
        x, self.past = self.attended(ids, None, self.past)
        logits: Tensor = self.head(x)
        return logits


def ids(batch: int = 2, length: int = 7) -> Tensor:
    """Return token ids ``(batch, length)``."""
    generator = torch.Generator().manual_seed(5)
    return torch.randint(VOCABULARY, (batch, length), generator=generator)
