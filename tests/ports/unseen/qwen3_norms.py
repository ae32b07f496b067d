"""Qwen3 with norms on queries and keys; grouped heads by expanded views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.ports.case import QKV, SCORES, Pair, Port
from tests.ports.originals import HEADS, WIDTH, padded, qwen3

KV, SIZE = 2, 8


class Attention(nn.Module):
    eps = 1e-6

    def __init__(self) -> None:
        super().__init__()
        self.q_proj = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(WIDTH, KV * SIZE, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(SIZE, self.eps), nn.RMSNorm(SIZE, self.eps)

    def normed(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.q_norm(q), self.k_norm(k)

    def placed(self, x: Tensor, base: float = 10000.0) -> Tensor:
        t = torch.arange(x.shape[1]).view(1, -1, 1, 1)
        angles = t * base ** (-torch.arange(0, SIZE, 2) / SIZE)
        rotation = torch.stack((angles.cos(), angles.sin()), dim=-1)
        a, b = x.chunk(2, dim=-1)
        cos, sin = rotation.unbind(-1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)

    def turned(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        q, k = self.normed(q, k)
        return self.placed(q), self.placed(k)

    def grouped(self, x: Tensor) -> Tensor:
        """Give each query head its kv head: (batch, kv, group, length, size)."""
        return x.transpose(1, 2)[:, :, None].expand(-1, -1, HEADS // KV, -1, -1)

    def arranged(self, q: Tensor) -> Tensor:
        return q.transpose(1, 2).unflatten(1, (KV, HEADS // KV))

    def joined(self, y: Tensor) -> Tensor:
        return y.flatten(1, 2).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q = self.q_proj(x).unflatten(-1, (HEADS, SIZE))
        k = self.k_proj(x).unflatten(-1, (KV, SIZE))
        v = self.v_proj(x).unflatten(-1, (KV, SIZE))
        q, k = self.turned(q, k)
        q, k, v = self.arranged(q), self.grouped(k), self.grouped(v)
        seen = torch.ones(x.shape[1], x.shape[1]).tril().bool() & keep.bool()[:, None, None, None]
        scores = (q * SIZE**-0.5) @ k.transpose(-1, -2)
        shares = torch.where(seen, scores, -torch.inf).softmax(dim=-1)
        return self.o_proj(self.joined(shares @ v))


class Decoder(nn.Module):
    def __init__(self, attention: type[Attention], config: Any) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, WIDTH)
        self.layers = nn.ModuleList()
        for _ in range(config.num_hidden_layers):
            layer = nn.ModuleDict({
                "self_attn": attention(),
                "input_layernorm": nn.RMSNorm(WIDTH, 1e-6),
                "post_attention_layernorm": nn.RMSNorm(WIDTH, 1e-6),
                "mlp": nn.ModuleDict({
                    "gate_proj": nn.Linear(WIDTH, config.intermediate_size, bias=False),
                    "up_proj": nn.Linear(WIDTH, config.intermediate_size, bias=False),
                    "down_proj": nn.Linear(config.intermediate_size, WIDTH, bias=False),
                }),
            })  # fmt: skip
            self.layers.append(layer)
        self.norm = nn.RMSNorm(WIDTH, 1e-6)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            assert isinstance(layer, nn.ModuleDict)
            mlp = layer["mlp"]
            assert isinstance(mlp, nn.ModuleDict)
            x = x + layer["self_attn"](layer["input_layernorm"](x), attention_mask)
            y = layer["post_attention_layernorm"](x)
            x = x + mlp["down_proj"](F.silu(mlp["gate_proj"](y)) * mlp["up_proj"](y))
        return self.norm(x)


def pair(attention: type[Attention] = Attention) -> Callable[[], Pair]:
    """The names are the original's, so that the state fits as it is."""

    def make() -> Pair:
        original = qwen3()
        model = Decoder(attention, original.config)
        model.load_state_dict(original.state_dict())
        return Pair(model.eval(), original, padded())

    return make


class KeysNotNormed(Attention):
    def normed(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.q_norm(q), k


class NormedAfterwards(Attention):
    """The norms come after the rotation; their gains then meet turned features."""

    def turned(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.normed(self.placed(q), self.placed(k))


class LargeEps(Attention):
    eps = 1e-1


class OtherBase(Attention):
    def placed(self, x: Tensor, base: float = 1000.0) -> Tensor:
        return super().placed(x, base)


class InTurn(Attention):
    def arranged(self, q: Tensor) -> Tensor:
        return q.transpose(1, 2).unflatten(1, (HEADS // KV, KV)).transpose(1, 2)

    def joined(self, y: Tensor) -> Tensor:
        return super().joined(y.transpose(1, 2))


class NotTurned(Attention):
    def turned(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.normed(q, k)


def fault(
    name: str,
    attention: type[Attention],
    key: str,
    stages: tuple[str, ...],
    *says: str,
    **more: Any,
) -> Port:
    return Port(
        name=f"qwen3-groups-{name}",
        reference="Qwen3",
        style="expanded views",
        make=pair(attention),
        key=key,
        stages=stages,
        says=says,
        **more,
    )


PORTS = (
    fault(
        "keys-not-normed", KeysNotNormed, "norm-missing", ("k", *SCORES), "norm", also=("qk-norm",)
    ),
    fault("normed-afterwards", NormedAfterwards, "norm-place", QKV, "norm"),
    fault("large-eps", LargeEps, "norm-eps", QKV, "0.1"),
    fault("other-base", OtherBase, "rotary-base", QKV, "1000"),
    fault("in-turn", InTurn, "kv-heads-tiled", ("q", "k", "v", "raw_scores"), "tile"),
    fault("not-turned", NotTurned, "rotary-missing", QKV, "rotary", "rotated", "rotation"),
)

SOUND = (Port(name="qwen3-groups-sound", reference="Qwen3", style="expanded views", make=pair()),)
