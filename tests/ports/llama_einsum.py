"""Llama by einsum, in the names of its first release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, einsum, nn

from .case import QKV, SCORES, Pair, Port, Q
from .originals import llama, padded


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    theta = 500.0
    heads, kv_heads, head_dim = 4, 2, 8

    def __init__(self, dim: int, hidden: int, eps: float) -> None:
        super().__init__()
        self.wq = nn.Linear(dim, self.heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, self.kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, self.kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(self.heads * self.head_dim, dim, bias=False)
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)
        self.attention_norm = RMSNorm(dim, eps)
        self.ffn_norm = RMSNorm(dim, eps)

    def angles(self, positions: Tensor) -> Tensor:
        rates = self.theta ** (-torch.arange(0, self.head_dim, 2) / self.head_dim)
        return einsum("t,f->tf", positions.float(), rates)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        angles = self.angles(positions)[:, None]
        cos, sin = angles.cos(), angles.sin()
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)

    def turn(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        t = torch.arange(q.shape[1])
        return self.rotate(q, t), self.rotate(k, t)

    def widen(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.heads // self.kv_heads, dim=2)

    def visible(self, keep: Tensor) -> Tensor:
        causal = torch.ones(keep.shape[1], keep.shape[1]).tril().bool()
        return causal & keep.bool()[:, None, None, :]

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return einsum("bqhd,bkhd->bhqk", q, k) / self.head_dim**0.5

    def weigh(self, scores: Tensor) -> Tensor:
        return scores.softmax(dim=-1)

    def attend(self, x: Tensor, keep: Tensor) -> Tensor:
        q = self.wq(x).unflatten(-1, (self.heads, self.head_dim))
        k = self.wk(x).unflatten(-1, (self.kv_heads, self.head_dim))
        v = self.wv(x).unflatten(-1, (self.kv_heads, self.head_dim))
        q, k = self.turn(q, k)
        k, v = self.widen(k), self.widen(v)
        scores = self.scores(q, k)
        scores = scores.masked_fill(~self.visible(keep), torch.finfo(scores.dtype).min)
        context = einsum("bhqk,bkhd->bqhd", self.weigh(scores), v)
        return self.merge(context)

    def merge(self, context: Tensor) -> Tensor:
        return self.wo(context.flatten(2))

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = x + self.attend(self.attention_norm(x), keep)
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class EinsumLlama(nn.Module):
    def __init__(self, config: Any, block: type[Block] = Block, eps: float | None = None) -> None:
        super().__init__()
        eps = config.rms_norm_eps if eps is None else eps
        dim, hidden = config.hidden_size, config.intermediate_size
        self.tok_embeddings = nn.Embedding(config.vocab_size, dim)
        self.layers = nn.ModuleList(
            block(dim, hidden, eps) for _ in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(dim, eps)
        self.output = nn.Linear(dim, config.vocab_size, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.tok_embeddings(input_ids)
        for layer in self.layers:
            x = layer(x, attention_mask)
        return self.output(self.norm(x))


NAMES = {
    "self_attn.q_proj": "wq",
    "self_attn.k_proj": "wk",
    "self_attn.v_proj": "wv",
    "self_attn.o_proj": "wo",
    "mlp.gate_proj": "w1",
    "mlp.down_proj": "w2",
    "mlp.up_proj": "w3",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "embed_tokens": "tok_embeddings",
    "lm_head": "output",
    "model.": "",
}


def renamed(state: dict[str, Tensor]) -> dict[str, Tensor]:
    new = {}
    for name, value in state.items():
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)  # noqa: PLW2901  the name is worn down step by step
        new[name] = value
    return new


def ported(original: Any, block: type[Block] = Block, eps: float | None = None) -> EinsumLlama:
    model = EinsumLlama(original.config, block, eps)
    model.load_state_dict(renamed(original.state_dict()))
    return model.eval()


def pair(block: type[Block] = Block, layers: int = 2, *, left: bool = False) -> Callable[[], Pair]:
    def make() -> Pair:
        original = llama(layers)
        return Pair(ported(original, block), original, padded(left=left))

    return make


class NeighbouringFeatures(Block):
    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        angles = self.angles(positions)[:, None]
        turned = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(
            torch.ones_like(angles), angles
        )
        return torch.view_as_real(turned).flatten(-2)


class UsualBase(Block):
    theta = 10000.0


class NeverTurned(Block):
    def turn(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q, k


class KeysNotTurned(Block):
    def turn(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.rotate(q, torch.arange(q.shape[1])), k


class QueriesOneAhead(Block):
    def turn(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        t = torch.arange(q.shape[1])
        return self.rotate(q, t + 1), self.rotate(k, t)


class Tiled(Block):
    def widen(self, x: Tensor) -> Tensor:
        return x.repeat(1, 1, self.heads // self.kv_heads, 1)


class PaddingSeen(Block):
    def visible(self, keep: Tensor) -> Tensor:
        return torch.ones(keep.shape[1], keep.shape[1]).tril().bool()


class FutureSeen(Block):
    def visible(self, keep: Tensor) -> Tensor:
        return keep.bool()[:, None, None, :]


class OneTooMany(Block):
    def visible(self, keep: Tensor) -> Tensor:
        causal = torch.ones(keep.shape[1], keep.shape[1]).tril(diagonal=1).bool()
        return causal & keep.bool()[:, None, None, :]


class ScaledByWidth(Block):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return einsum("bqhd,bkhd->bhqk", q, k) / (self.heads * self.head_dim) ** 0.5


class OneInTheDenominator(Block):
    def weigh(self, scores: Tensor) -> Tensor:
        powers = scores.exp()
        return powers / (1 + powers.sum(dim=-1, keepdim=True))


class NoResidual(Block):
    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        x = self.attend(self.attention_norm(x), keep)
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class HeadsReversed(Block):
    def merge(self, context: Tensor) -> Tensor:
        return self.wo(context.flip(2).flatten(2))


class ShiftedAlike(Block):
    def turn(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        t = torch.arange(q.shape[1]) + 5
        return self.rotate(q, t), self.rotate(k, t)


def interleaved(weight: Tensor) -> Tensor:
    """Put the rows of each head in the order that neighbouring features need."""
    return weight.unflatten(0, (-1, 2, 4)).transpose(1, 2).flatten(0, 2)


def converted() -> Pair:
    original = llama()
    model = ported(original, NeighbouringFeatures)
    with torch.no_grad():
        for layer in model.layers:
            assert isinstance(layer, Block)
            layer.wq.weight.copy_(interleaved(layer.wq.weight))
            layer.wk.weight.copy_(interleaved(layer.wk.weight))
    return Pair(model, original, padded())


def other_eps() -> Pair:
    original = llama(small_embeddings=True)
    return Pair(ported(original, eps=1e-5), original, padded())


def by_name() -> Pair:
    original = llama()
    return Pair(EinsumLlama(original.config).eval(), original, padded())


def fault(
    name: str, block: type[Block], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"llama-einsum-{name}",
        reference="Llama",
        style="einsum",
        make=pair(block),
        key=key,
        stages=stages,
        says=says,
        **more,
    )


PORTS = (
    fault("interleaved", NeighbouringFeatures, "rotary-pairing", QKV, "2i", "interleaved"),
    fault("base", UsualBase, "rotary-base", QKV, "10000", "10,000", "1e4", "1e+04"),
    fault("no-rotary", NeverTurned, "rotary-missing", QKV, "rotary", "rotated", "rotation"),
    fault("keys-not-rotated", KeysNotTurned, "rotary-missing", ("k", "raw_scores"), "on k"),
    fault("query-positions", QueriesOneAhead, "positions-shifted", Q, "by +1", "by 1"),
    fault("tiled", Tiled, "kv-heads-tiled", ("k", "v", "raw_scores"), "tile"),
    Port(
        name="llama-einsum-padding-seen",
        reference="Llama",
        style="einsum",
        make=pair(PaddingSeen, left=True),
        key="mask-missing",
        stages=("scores",),
        says=("padding",),
    ),
    fault("future-seen", FutureSeen, "mask-missing", ("scores",), "causal"),
    fault("one-too-many", OneTooMany, "mask-shifted", ("scores",), "by 1", "by one"),
    fault("scaled-by-width", ScaledByWidth, "scale", SCORES, "d_model"),
    fault(
        "one-below", OneInTheDenominator, "normaliser", ("weights",), "1", "one", also=("sinks",)
    ),
    fault("heads-reversed", HeadsReversed, "heads-permuted", ("context", "output"), "head"),
    Port(
        name="llama-einsum-no-residual",
        reference="Llama",
        style="einsum",
        make=pair(NoResidual),
        key="residual-missing",
        stages=("input", "output"),
        call=1,
        says=(
            "residual missing",
            "no residual",
        ),
    ),
    Port(
        name="llama-einsum-no-residual-at-the-end",
        reference="Llama",
        style="einsum",
        make=pair(NoResidual, layers=1),
        key="residual-missing",
        stages=("model",),
        call=None,
        says=(
            "residual missing",
            "no residual",
        ),
    ),
    Port(
        name="llama-einsum-eps",
        reference="Llama",
        style="einsum",
        make=other_eps,
        key="norm-eps",
        stages=("input", *QKV),
        says=("1e-05", "1e-5"),
    ),
)


def sound(name: str, make: Callable[[], Pair]) -> Port:
    return Port(name=f"llama-einsum-{name}", reference="Llama", style="einsum", make=make)


SOUND = (
    sound("sound", pair()),
    sound("padded-left", pair(left=True)),
    sound("copied-by-name", by_name),
    sound("weights-converted", converted),
    sound("positions-shifted-alike", pair(ShiftedAlike)),
)
