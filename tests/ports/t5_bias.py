"""T5's encoder as a tutorial would show it: one attention, the bias made once and handed on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import SCORES, Pair, Port
from .originals import padded, t5


def bucket(distance: Tensor, buckets: int, longest: int) -> Tensor:
    """Share the distances out: half of the buckets for each direction, far ones together."""
    half = buckets // 2
    exact = half // 2
    far = distance.abs().clamp(min=1).float()
    steps = torch.log(far / exact) / math.log(longest / exact) * (half - exact)
    coarse = (exact + steps.long()).clamp(max=half - 1)
    near = torch.where(distance.abs() < exact, distance.abs(), coarse)
    return near + half * (distance > 0)


class ScaleNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int, size: int) -> None:
        super().__init__()
        self.to_q = nn.Linear(width, heads * size, bias=False)
        self.to_k = nn.Linear(width, heads * size, bias=False)
        self.to_v = nn.Linear(width, heads * size, bias=False)
        self.to_out = nn.Linear(heads * size, width, bias=False)
        self.heads = heads

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).movedim(-2, 1)

    def scores(self, q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
        return torch.einsum("bhid,bhjd->bhij", q, k) + bias

    def forward(self, x: Tensor, bias: Tensor, keep: Tensor) -> Tensor:
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))
        dots = self.scores(q, k, bias)
        dots = dots + torch.where(keep.bool(), 0.0, -torch.inf)[:, None, None, :]
        out = torch.einsum("bhij,bhjd->bhid", dots.softmax(dim=-1), v)
        return self.to_out(out.movedim(1, -2).flatten(-2))


class Encoder(nn.Module):
    def __init__(self, config: Any, attention: type[SelfAttention] = SelfAttention) -> None:
        super().__init__()
        width = config.d_model
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, width)
        self.relative = nn.Embedding(config.relative_attention_num_buckets, config.num_heads)
        self.attentions = nn.ModuleList()
        self.norms = nn.ModuleList()
        self.ups, self.downs = nn.ModuleList(), nn.ModuleList()
        self.ff_norms = nn.ModuleList()
        for _ in range(config.num_layers):
            self.attentions.append(attention(width, config.num_heads, config.d_kv))
            self.norms.append(ScaleNorm(width))
            self.ff_norms.append(ScaleNorm(width))
            self.ups.append(nn.Linear(width, config.d_ff, bias=False))
            self.downs.append(nn.Linear(config.d_ff, width, bias=False))
        self.last_norm = ScaleNorm(width)

    def bias(self, length: int) -> Tensor:
        places = torch.arange(length)
        distance = places[None, :] - places[:, None]
        c = self.config
        buckets = bucket(
            distance, c.relative_attention_num_buckets, c.relative_attention_max_distance
        )
        return self.relative(buckets).permute(2, 0, 1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embedding(input_ids)
        bias = self.bias(input_ids.shape[1])
        for i, attention in enumerate(self.attentions):
            x = x + attention(self.norms[i](x), bias, attention_mask)
            x = x + self.downs[i](F.relu(self.ups[i](self.ff_norms[i](x))))
        return self.last_norm(x)


def copy(encoder: Encoder, original: Any) -> None:
    """Copy the weights of the original."""
    state = original.state_dict()
    ours = {"embedding.weight": state["shared.weight"]}
    first = "encoder.block.0.layer.0.SelfAttention."
    ours["relative.weight"] = state[f"{first}relative_attention_bias.weight"]
    ours["last_norm.gain"] = state["encoder.final_layer_norm.weight"]
    for i in range(original.config.num_layers):
        block = f"encoder.block.{i}.layer"
        for theirs, mine in {"q": "q", "k": "k", "v": "v", "o": "out"}.items():
            ours[f"attentions.{i}.to_{mine}.weight"] = state[
                f"{block}.0.SelfAttention.{theirs}.weight"
            ]
        ours[f"norms.{i}.gain"] = state[f"{block}.0.layer_norm.weight"]
        ours[f"ff_norms.{i}.gain"] = state[f"{block}.1.layer_norm.weight"]
        ours[f"ups.{i}.weight"] = state[f"{block}.1.DenseReluDense.wi.weight"]
        ours[f"downs.{i}.weight"] = state[f"{block}.1.DenseReluDense.wo.weight"]
    encoder.load_state_dict(ours)


def pair(
    attention: type[SelfAttention] = SelfAttention, encoder: type[Encoder] = Encoder
) -> Callable[[], Pair]:
    def make() -> Pair:
        original = t5()
        model = encoder(original.config, attention).eval()
        copy(model, original)
        return Pair(model, original, padded())

    return make


class Scaled(SelfAttention):
    def scores(self, q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
        return torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5 + bias


class Unbiased(SelfAttention):
    def scores(self, q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
        del bias
        return torch.einsum("bhid,bhjd->bhij", q, k)


class BiasTaken(SelfAttention):
    def scores(self, q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
        return torch.einsum("bhid,bhjd->bhij", q, k) - bias


class Forgetting(Encoder):
    """The bias of the first layer is not handed on."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embedding(input_ids)
        bias = self.bias(input_ids.shape[1])
        for i, attention in enumerate(self.attentions):
            x = x + attention(self.norms[i](x), bias if i == 0 else 0 * bias, attention_mask)
            x = x + self.downs[i](F.relu(self.ups[i](self.ff_norms[i](x))))
        return self.last_norm(x)


class NormForgotten(Encoder):
    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embedding(input_ids)
        bias = self.bias(input_ids.shape[1])
        for i, attention in enumerate(self.attentions):
            x = x + attention(self.norms[i](x), bias, attention_mask)
            x = x + self.downs[i](F.relu(self.ups[i](self.ff_norms[i](x))))
        return x


class RowsMoved(SelfAttention):
    """A constant is taken from each row of scores, which no softmax sees."""

    def scores(self, q: Tensor, k: Tensor, bias: Tensor) -> Tensor:
        dots = torch.einsum("bhid,bhjd->bhij", q, k) + bias
        return dots - dots.diagonal(dim1=-2, dim2=-1)[..., None]


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"t5-bias-{name}",
        reference="T5 encoder",
        style="lists of parts",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


def sound(name: str, make: Callable[[], Pair]) -> Port:
    return Port(name=f"t5-bias-{name}", reference="T5 encoder", style="lists of parts", make=make)


PORTS = (
    fault("scaled", pair(Scaled), "scale", SCORES, "head_dim"),
    fault("unbiased", pair(Unbiased), "bias-missing", ("scores",), "bias"),
    fault("bias-taken", pair(BiasTaken), "bias-sign", ("scores",), "sign"),
    fault("forgetting", pair(encoder=Forgetting), "bias-missing", ("scores",), "bias", call=1),
    fault(
        "norm-forgotten", pair(encoder=NormForgotten), "norm-missing", ("model",), "norm", call=None
    ),
)

SOUND = (
    sound("sound", pair()),
    sound("rows-moved", pair(RowsMoved)),
)
