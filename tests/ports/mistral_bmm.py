"""Mistral with heads folded into the batch, as for old kernels: bmm, baddbmm, views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import QKV, SCORES, Pair, Port, Q
from .originals import mistral, padded


def rms(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), gain, eps)


class Mixer(nn.Module):
    """Attention over ``(batch * heads, length, head_dim)``."""

    window = 4
    base = 10000.0
    share = 1.0

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.n, self.m = config.num_attention_heads, config.num_key_value_heads
        self.d = config.hidden_size // self.n
        self.qkv = nn.Linear(config.hidden_size, (self.n + 2 * self.m) * self.d, bias=False)
        self.o = nn.Linear(self.n * self.d, config.hidden_size, bias=False)

    def project(self, x: Tensor) -> list[Tensor]:
        """Return q, k, v, each ``(batch, heads, length, d)``."""
        parts = self.qkv(x).split([self.n * self.d, self.m * self.d, self.m * self.d], dim=-1)
        return [part.view(*x.shape[:2], -1, self.d).transpose(1, 2) for part in parts]

    def turned(self, x: Tensor, start: int = 0) -> Tensor:
        width = int(self.share * self.d)
        time = torch.arange(start, start + x.shape[2], dtype=torch.float)
        phase = torch.outer(time, self.base ** -(torch.arange(0, width, 2) / width)).repeat(1, 2)
        y, rest = x[..., :width], x[..., width:]
        swapped = torch.cat((-y[..., width // 2 :], y[..., : width // 2]), dim=-1)
        return torch.cat((y * phase.cos() + swapped * phase.sin(), rest), dim=-1)

    def place(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.turned(q), self.turned(k)

    def spread(self, x: Tensor) -> Tensor:
        b, m, t, d = x.shape
        return x[:, :, None].expand(b, m, self.n // m, t, d).reshape(b * self.n, t, d)

    def hidden(self, t: int) -> Tensor:
        """Return True where a key may not be seen."""
        ago = torch.arange(t)[:, None] - torch.arange(t)
        return (ago < 0) | (ago >= self.window)

    def scale(self) -> float:
        return self.d**-0.5

    def soften(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores, dim=-1)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        b, t, _ = x.shape
        q, k, v = self.project(x)
        q, k = self.place(q, k)
        q, k, v = q.reshape(b * self.n, t, self.d), self.spread(k), self.spread(v)
        hide = self.hidden(t) | ~keep.bool()[:, None, :]
        start = torch.zeros(b, t, t).masked_fill(hide, torch.finfo(x.dtype).min)
        start = start.repeat_interleave(self.n, dim=0)
        scores = torch.baddbmm(start, q, k.transpose(1, 2), alpha=self.scale())
        y = torch.bmm(self.soften(scores), v)
        return self.o(y.view(b, self.n, t, self.d).transpose(1, 2).reshape(b, t, -1))


class Decoder(nn.Module):
    def __init__(self, config: Any, mixer: type[Mixer] = Mixer) -> None:
        super().__init__()
        w, h = config.hidden_size, config.intermediate_size
        self.eps = config.rms_norm_eps
        self.emb = nn.Embedding(config.vocab_size, w)
        self.mixers = nn.ModuleList(mixer(config) for _ in range(config.num_hidden_layers))
        self.gate_up = nn.ModuleList(nn.Linear(w, 2 * h, bias=False) for _ in self.mixers)
        self.down = nn.ModuleList(nn.Linear(h, w, bias=False) for _ in self.mixers)
        self.gains = nn.ParameterList(torch.ones(w) for _ in range(2 * len(self.mixers) + 1))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.emb(input_ids)
        for i, mixer in enumerate(self.mixers):
            x = x + mixer(rms(x, self.gains[2 * i], self.eps), attention_mask)
            y = rms(x, self.gains[2 * i + 1], self.eps)
            gate, up = self.gate_up[i](y).chunk(2, dim=-1)
            x = x + self.down[i](F.silu(gate) * up)
        return rms(x, self.gains[-1], self.eps)


@torch.no_grad()
def fill(decoder: Any, original: Any) -> None:
    decoder.emb.weight.copy_(original.embed_tokens.weight)
    for i, layer in enumerate(original.layers):
        a, f = layer.self_attn, layer.mlp
        qkv = torch.cat([a.q_proj.weight, a.k_proj.weight, a.v_proj.weight])
        decoder.mixers[i].qkv.weight.copy_(qkv)
        decoder.mixers[i].o.weight.copy_(a.o_proj.weight)
        decoder.gate_up[i].weight.copy_(torch.cat([f.gate_proj.weight, f.up_proj.weight]))
        decoder.down[i].weight.copy_(f.down_proj.weight)
        decoder.gains[2 * i].copy_(layer.input_layernorm.weight)
        decoder.gains[2 * i + 1].copy_(layer.post_attention_layernorm.weight)
    decoder.gains[-1].copy_(original.norm.weight)


def pair(mixer: type[Mixer] = Mixer, window: int = 4, layers: int = 2) -> Callable[[], Pair]:
    def make() -> Pair:
        original = mistral(layers, window=window)
        decoder = Decoder(original.config, mixer).eval()
        fill(decoder, original)
        return Pair(decoder, original, padded())

    return make


class OneLonger(Mixer):
    def hidden(self, t: int) -> Tensor:
        ago = torch.arange(t)[:, None] - torch.arange(t)
        return (ago < 0) | (ago > self.window)


class HalfAsLong(Mixer):
    window = 2


class NoWindow(Mixer):
    window = 1000


class BothWays(Mixer):
    def hidden(self, t: int) -> Tensor:
        return (torch.arange(t)[:, None] - torch.arange(t)).abs() >= self.window


class TiledKeys(Mixer):
    def spread(self, x: Tensor) -> Tensor:
        return x.repeat(1, self.n // x.shape[1], 1, 1).flatten(0, 1)


class Halved(Mixer):
    share = 0.5


class OtherBase(Mixer):
    base = 1000000.0


class Shifted(Mixer):
    def place(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.turned(q), self.turned(k, start=2)


class ValuesBeforeKeys(Mixer):
    def project(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().project(x)
        return [q, v, k]


class HalfPrecision(Mixer):
    def soften(self, scores: Tensor) -> Tensor:
        return torch.softmax(scores.bfloat16(), dim=-1).to(scores.dtype)


class WidthOfKeys(Mixer):
    def scale(self) -> float:
        return (self.m * self.d) ** -0.5


class SplitEvenly(Mixer):
    def spread(self, x: Tensor) -> Tensor:
        return x.repeat_interleave(self.n // self.m, dim=1).flatten(0, 1)


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"mistral-bmm-{name}",
        reference="Mistral",
        style="bmm",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


def sound(name: str, make: Callable[[], Pair]) -> Port:
    return Port(name=f"mistral-bmm-{name}", reference="Mistral", style="bmm", make=make)


S = ("scores",)
PORTS = (
    fault("one-longer", pair(OneLonger), "window", S, "of 5"),
    fault("half-as-long", pair(HalfAsLong), "window", S, "of 2"),
    fault("no-window", pair(NoWindow), "mask-missing", S, "window", also=("window",)),
    fault(
        "both-ways",
        pair(BothWays),
        "mask-missing",
        S,
        "causal",
        "both sides",
        also=("window",),
    ),
    fault("tiled", pair(TiledKeys), "kv-heads-tiled", ("k", "v", "raw_scores"), "tile"),
    fault("half-turned", pair(Halved), "rotary-share", QKV, "0.5", "half", "4"),
    fault(
        "other-base", pair(OtherBase), "rotary-base", QKV, "1000000", "1,000,000", "1e6", "1e+06"
    ),
    fault("shifted", pair(Shifted), "positions-shifted", ("k", *Q), "by +2", "by 2"),
    fault("values-before-keys", pair(ValuesBeforeKeys), "split-order", QKV, "split as", "order"),
    fault("half-precision", pair(HalfPrecision), "rounding", ("scores", "weights"), "bfloat16"),
    fault("width-of-keys", pair(WidthOfKeys), "scale", SCORES, "kv"),
)

SOUND = (
    sound("sound", pair()),
    sound("split-evenly", pair(SplitEvenly)),
    sound("window-longer-than-the-text", pair(NoWindow, window=64)),
)
