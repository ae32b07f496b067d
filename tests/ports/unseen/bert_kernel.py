"""BERT in few lines around the fused kernel, or with every mask made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.ports.case import QKV, Pair, Port, Q
from tests.ports.originals import HEADS, WIDTH, bert, padded


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query_proj, self.key_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.value_proj, self.output_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def allowed(self, mask: Tensor) -> Tensor:
        return mask.bool()[:, None, None, :]

    def shaped(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.query_proj(x), self.key_proj(x), self.value_proj(x)
        return self.shaped(q), self.shaped(k), self.shaped(v)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.allowed(mask))

    def gather(self, y: Tensor) -> Tensor:
        return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.output_proj(self.gather(self.attend(*self.parts(x), mask)))


class Model(nn.Module):
    def __init__(self, attention: type[SelfAttention], config: Any) -> None:
        super().__init__()
        n, eps = config.num_hidden_layers, 1e-12
        self.word = nn.Embedding(config.vocab_size, WIDTH)
        self.position = nn.Embedding(config.max_position_embeddings, WIDTH)
        self.token_type = nn.Embedding(2, WIDTH)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH, eps=eps) for _ in range(2 * n + 1))
        self.attentions = nn.ModuleList(attention() for _ in range(n))
        self.fc1 = nn.ModuleList(nn.Linear(WIDTH, config.intermediate_size) for _ in range(n))
        self.fc2 = nn.ModuleList(nn.Linear(config.intermediate_size, WIDTH) for _ in range(n))

    def embed(self, ids: Tensor) -> Tensor:
        return self.word(ids) + self.position.weight[: ids.shape[1]] + self.token_type.weight[0]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.norms[0](self.embed(input_ids))
        for i, attention in enumerate(self.attentions):
            x = self.norms[2 * i + 1](self.around(x, attention(x, attention_mask)))
            x = self.norms[2 * i + 2](x + self.fc2[i](F.gelu(self.fc1[i](x))))
        return x

    def around(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


def fill(model: Any, original: Any) -> None:
    e = original.embeddings
    model.word.load_state_dict(e.word_embeddings.state_dict())
    model.position.load_state_dict(e.position_embeddings.state_dict())
    model.token_type.load_state_dict(e.token_type_embeddings.state_dict())
    model.norms[0].load_state_dict(e.LayerNorm.state_dict())
    for i, layer in enumerate(original.encoder.layer):
        ours, theirs = model.attentions[i], layer.attention
        for name in ("query", "key", "value"):
            state = getattr(theirs.self, name).state_dict()
            getattr(ours, f"{name}_proj").load_state_dict(state)
        ours.output_proj.load_state_dict(theirs.output.dense.state_dict())
        model.norms[2 * i + 1].load_state_dict(theirs.output.LayerNorm.state_dict())
        model.fc1[i].load_state_dict(layer.intermediate.dense.state_dict())
        model.fc2[i].load_state_dict(layer.output.dense.state_dict())
        model.norms[2 * i + 2].load_state_dict(layer.output.LayerNorm.state_dict())


def pair(
    attention: type[SelfAttention] = SelfAttention, model: type[Model] = Model
) -> Callable[[], Pair]:
    def make() -> Pair:
        original = bert()
        ported = model(attention, original.config).eval()
        fill(ported, original)
        return Pair(ported, original, padded())

    return make


class DropsTheKept(SelfAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return scores.masked_fill(self.allowed(mask), -1e4).softmax(-1) @ v


class FloatKept(SelfAttention):
    """The tokenizer's 1/0 as a float: the kernel adds it."""

    def allowed(self, mask: Tensor) -> Tensor:
        return mask.float()[:, None, None, :]


class MinusOne(SelfAttention):
    """Meant as -inf for padding; minus one is what is added."""

    def allowed(self, mask: Tensor) -> Tensor:
        return (mask.float() - 1.0)[:, None, None, :]


class WeakMinus(SelfAttention):
    def allowed(self, mask: Tensor) -> Tensor:
        return ((1.0 - mask.float()) * -8.0)[:, None, None, :]


class Columns(SelfAttention):
    """The padding is laid along the queries."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        hide = (mask == 0)[:, None, :, None].float() * -1e9
        return (q @ k.mT / q.shape[-1] ** 0.5 + hide).softmax(-1) @ v


class Afterwards(SelfAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return (weights * mask[:, None, None, :]) @ v


class QueryIsKey(SelfAttention):
    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().parts(x)
        return k, q, v


class KeyIsValue(SelfAttention):
    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, _ = super().parts(x)
        return q, k, k


class QueryWeightTurned(SelfAttention):
    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = x @ self.query_proj.weight + self.query_proj.bias
        k, v = self.key_proj(x), self.value_proj(x)
        return self.shaped(q), self.shaped(k), self.shaped(v)


class QueryBiasTwice(SelfAttention):
    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q = self.query_proj(x) + self.query_proj.bias
        k, v = self.key_proj(x), self.value_proj(x)
        return self.shaped(q), self.shaped(k), self.shaped(v)


class Gathered(SelfAttention):
    def gather(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[0], y.shape[2], -1)


class OneInTheDenominator(SelfAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~self.allowed(mask), -torch.inf)
        nothing = torch.zeros_like(scores[..., :1])
        return torch.cat([nothing, scores], dim=-1).softmax(-1)[..., 1:] @ v


class Alone(Model):
    def around(self, x: Tensor, y: Tensor) -> Tensor:
        del x
        return y


class Both(Model):
    def around(self, x: Tensor, y: Tensor) -> Tensor:
        return x + (x + y)


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"bert-kernel-{name}",
        reference="BERT",
        style="kernel and views",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


S, AFTER = ("scores",), ("context", "output")
PORTS = (
    fault("drops-the-kept", pair(DropsTheKept), "mask-inverted", S, "inverted"),
    fault("float-kept", pair(FloatKept), "mask-as-bias", S, "added", "bias"),
    fault("minus-one", pair(MinusOne), "mask-as-bias", S, "added", "bias", also=("mask-fill",)),
    fault("weak-minus", pair(WeakMinus), "mask-fill", S, "8"),
    fault("columns", pair(Columns), "mask-axis", S, "quer"),
    fault("afterwards", pair(Afterwards), "mask-after-softmax", ("scores", "weights"), "after"),
    fault("query-is-key", pair(QueryIsKey), "q-k-swapped", QKV, "swap", "as k", "k with"),
    fault("key-is-value", pair(KeyIsValue), "k-for-v", ("v",), "as k", "k with"),
    fault("query-weight-turned", pair(QueryWeightTurned), "weight-transposed", Q, "transpose"),
    fault("query-bias-twice", pair(QueryBiasTwice), "projection-bias", Q, "bias"),
    fault("gathered", pair(Gathered), "merge-by-view", AFTER, "view"),
    fault(
        "one-in-the-denominator",
        pair(OneInTheDenominator),
        "normaliser",
        ("weights",),
        "1",
        "sinks of 0",
        also=("sinks",),
    ),
    fault(
        "alone",
        pair(model=Alone),
        "residual-missing",
        ("input",),
        "residual missing",
        "no residual",
        call=1,
    ),
    fault(
        "both",
        pair(model=Both),
        "residual-doubled",
        ("input",),
        "residual added twice",
        "residual twice",
        call=1,
    ),
)

SOUND = (Port(name="bert-kernel-sound", reference="BERT", style="kernel and views", make=pair()),)
