"""BERT head by head: a list of matrices a head, loops, no reshaping at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import QKV, SCORES, Pair, Port, Q
from .originals import bert, padded


class Head(nn.Module):
    """One head with matrices of its own."""

    def __init__(self, dim: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(dim, size)
        self.key = nn.Linear(dim, size)
        self.value = nn.Linear(dim, size)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.query(x), self.key(x), self.value(x)

    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask[:, None, :] == 0, -1e9)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self.project(x)
        scores = torch.bmm(query, key.transpose(1, 2)) / query.size(-1) ** 0.5
        return torch.bmm(F.softmax(self.hide(scores, mask), dim=-1), value)


class Layer(nn.Module):
    def __init__(self, head: type[Head], dim: int, heads: int, hidden: int, eps: float) -> None:
        super().__init__()
        self.heads = nn.ModuleList(head(dim, dim // heads) for _ in range(heads))
        self.dense = nn.Linear(dim, dim)
        self.norm1 = nn.LayerNorm(dim, eps=eps)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.norm2 = nn.LayerNorm(dim, eps=eps)

    def join(self, contexts: list[Tensor]) -> Tensor:
        return self.dense(torch.cat(contexts, dim=-1))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.join([head(x, mask) for head in self.heads])
        x = self.norm1(x + y)
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class LoopBert(nn.Module):
    def __init__(
        self,
        config: Any,
        head: type[Head] = Head,
        layer: type[Layer] = Layer,
        eps: float = 1e-12,
    ) -> None:
        super().__init__()
        dim = config.hidden_size
        self.words = nn.Embedding(config.vocab_size, dim)
        self.places = nn.Embedding(config.max_position_embeddings, dim)
        self.types = nn.Embedding(2, dim)
        self.norm = nn.LayerNorm(dim, eps=eps)
        self.layers = nn.ModuleList(
            layer(head, dim, config.num_attention_heads, config.intermediate_size, eps)
            for _ in range(config.num_hidden_layers)
        )

    def embed(self, ids: Tensor) -> Tensor:
        places = self.places(torch.arange(ids.shape[1]))
        return self.norm(self.words(ids) + places + self.types(torch.zeros_like(ids)))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x, attention_mask)
        return x


class BareEmbeddings(LoopBert):
    def embed(self, ids: Tensor) -> Tensor:
        places = self.places(torch.arange(ids.shape[1]))
        return self.words(ids) + places + self.types(torch.zeros_like(ids))


def fill(layer: Any, theirs: Any) -> None:
    """Cut the weights of one layer into heads."""
    attention = theirs.attention
    size = attention.self.query.out_features // len(layer.heads)
    for h, head in enumerate(layer.heads):
        for name in ("query", "key", "value"):
            source = getattr(attention.self, name)
            rows = slice(h * size, (h + 1) * size)
            getattr(head, name).weight.copy_(source.weight[rows])
            getattr(head, name).bias.copy_(source.bias[rows])
    layer.dense.load_state_dict(attention.output.dense.state_dict())
    layer.norm1.load_state_dict(attention.output.LayerNorm.state_dict())
    layer.up.load_state_dict(theirs.intermediate.dense.state_dict())
    layer.down.load_state_dict(theirs.output.dense.state_dict())
    layer.norm2.load_state_dict(theirs.output.LayerNorm.state_dict())


@torch.no_grad()
def ported(original: Any, model: LoopBert) -> LoopBert:
    embeddings = original.embeddings
    model.words.load_state_dict(embeddings.word_embeddings.state_dict())
    model.places.load_state_dict(embeddings.position_embeddings.state_dict())
    model.types.load_state_dict(embeddings.token_type_embeddings.state_dict())
    model.norm.load_state_dict(embeddings.LayerNorm.state_dict())
    for layer, theirs in zip(model.layers, original.encoder.layer, strict=True):
        fill(layer, theirs)
    return model.eval()


def pair(
    head: type[Head] = Head, layer: type[Layer] = Layer, layers: int = 2
) -> Callable[[], Pair]:
    def make() -> Pair:
        original = bert(layers)
        return Pair(ported(original, LoopBert(original.config, head, layer)), original, padded())

    return make


class Inverted(Head):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask[:, None, :] == 1, -1e9)


class NothingHidden(Head):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        del mask
        return scores


class Added(Head):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores + mask[:, None, :]


class QueriesHidden(Head):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask[:, :, None] == 0, -1e9)


class HiddenALittle(Head):
    def hide(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores.masked_fill(mask[:, None, :] == 0, -5.0)


class Crossed(Head):
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.key(x), self.query(x), self.value(x)


class ValueBiasTwice(Head):
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.query(x), self.key(x), self.value(x) + self.value.bias


class QueryWithoutBias(Head):
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return F.linear(x, self.query.weight), self.key(x), self.value(x)


class KeyWithoutBias(Head):
    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.query(x), F.linear(x, self.key.weight), self.value(x)


class LastHeadFirst(Layer):
    def join(self, contexts: list[Tensor]) -> Tensor:
        return self.dense(torch.cat(contexts[::-1], dim=-1))


class NormLeftOut(Layer):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.join([head(x, mask) for head in self.heads])
        x = x + y
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class NormBeforeTheSum(Layer):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.join([head(x, mask) for head in self.heads])
        x = x + self.norm1(y)
        return self.norm2(x + self.down(F.gelu(self.up(x))))


def bare() -> Pair:
    original = bert()
    return Pair(ported(original, BareEmbeddings(original.config)), original, padded())


def other_eps() -> Pair:
    original = bert(small_embeddings=True)
    return Pair(ported(original, LoopBert(original.config, eps=1e-5)), original, padded())


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"bert-loops-{name}",
        reference="BERT",
        style="loops",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


def sound(name: str, make: Callable[[], Pair]) -> Port:
    return Port(name=f"bert-loops-{name}", reference="BERT", style="loops", make=make)


S = ("scores",)
IN = ("input", *QKV)
LATER: dict[str, Any] = {"call": None}
PORTS = (
    fault("inverted", pair(Inverted), "mask-inverted", S, "inverted"),
    fault("nothing-hidden", pair(NothingHidden), "mask-missing", S, "padding"),
    fault("added", pair(Added), "mask-as-bias", S, "added", "bias"),
    fault("queries-hidden", pair(QueriesHidden), "mask-axis", S, "quer"),
    fault("hidden-a-little", pair(HiddenALittle), "mask-fill", SCORES, "5"),
    fault("crossed", pair(Crossed), "q-k-swapped", QKV, "swap", "as k"),
    fault("value-bias-twice", pair(ValueBiasTwice), "projection-bias", ("v",), "bias"),
    fault("query-without-bias", pair(QueryWithoutBias), "projection-bias", Q, "bias"),
    fault(
        "last-head-first",
        pair(layer=LastHeadFirst),
        "heads-permuted",
        ("context", "output"),
        "head",
    ),
    fault(
        "norm-left-out",
        pair(layer=NormLeftOut, layers=1),
        "norm-missing",
        ("model",),
        "norm",
        **LATER,
    ),
    fault(
        "norm-before-the-sum",
        pair(layer=NormBeforeTheSum, layers=1),
        "norm-place",
        ("model", "output"),
        "norm",
        **LATER,
    ),
    fault("bare-embeddings", bare, "norm-missing", IN, "norm"),
    fault("eps", other_eps, "norm-eps", IN, "1e-05", "1e-5"),
)

SOUND = (
    sound("sound", pair()),
    sound("key-without-bias", pair(KeyWithoutBias)),
)
