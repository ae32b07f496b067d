"""GPT-NeoX without modules: a dictionary of tensors and functions over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import QKV, SCORES, Pair, Port
from .originals import HEADS, WIDTH, neox, token_ids

SIZE = WIDTH // HEADS


class Weights(nn.Module):
    """The checkpoint's tensors under the names they came with."""

    share = 0.5

    def __init__(self, state: dict[str, Tensor], layers: int) -> None:
        super().__init__()
        self.layers = layers
        self.p = nn.ParameterDict(
            {name.replace(".", "/"): value.clone() for name, value in state.items()}
        )

    def linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.p[f"{name}/weight"], self.p[f"{name}/bias"])

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (WIDTH,), self.p[f"{name}/weight"], self.p[f"{name}/bias"])

    def cut(self, fused: Tensor) -> tuple[Tensor, ...]:
        """Cut the fused projection, which holds q, k and v of one head side by side."""
        return fused.unflatten(-1, (HEADS, 3, SIZE)).transpose(1, 2).unbind(-2)

    def rotate(self, x: Tensor) -> Tensor:
        width = int(self.share * SIZE)
        rates = 10000 ** -(torch.arange(0, width, 2) / width)
        phase = torch.arange(x.shape[-2])[:, None] * rates
        a, b, rest = x.tensor_split((width // 2, width), dim=-1)
        cos, sin = phase.cos(), phase.sin()
        return torch.cat((a * cos - b * sin, a * sin + b * cos, rest), dim=-1)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def attention(self, x: Tensor, name: str) -> Tensor:
        q, k, v = self.cut(self.linear(x, f"{name}/query_key_value"))
        y = self.attend(self.rotate(q), self.rotate(k), v)
        return self.linear(y.transpose(1, 2).flatten(2), f"{name}/dense")

    def forward(self, ids: Tensor) -> Tensor:
        x = F.embedding(ids, self.p["embed_in/weight"])
        for i in range(self.layers):
            at = f"layers/{i}"
            y = self.attention(self.norm(x, f"{at}/input_layernorm"), f"{at}/attention")
            z = self.linear(
                self.norm(x, f"{at}/post_attention_layernorm"), f"{at}/mlp/dense_h_to_4h"
            )
            x = x + y + self.linear(F.gelu(z), f"{at}/mlp/dense_4h_to_h")
        return self.norm(x, "final_layer_norm")


def pair(weights: type[Weights] = Weights) -> Callable[[], Pair]:
    def make() -> Pair:
        original = neox()
        layers = original.config.num_hidden_layers
        return Pair(weights(original.state_dict(), layers).eval(), original, (token_ids(),))

    return make


class AllTurned(Weights):
    share = 1.0


class QuarterTurned(Weights):
    share = 0.25


class Neighbours(Weights):
    def rotate(self, x: Tensor) -> Tensor:
        width = int(self.share * SIZE)
        rates = 10000 ** -(torch.arange(0, width, 2) / width)
        phase = torch.arange(x.shape[-2])[:, None] * rates
        a, b = x[..., 0:width:2], x[..., 1:width:2]
        cos, sin = phase.cos(), phase.sin()
        turned = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
        return torch.cat((turned, x[..., width:]), dim=-1)


class ThreeBlocks(Weights):
    def cut(self, fused: Tensor) -> tuple[Tensor, ...]:
        return fused.unflatten(-1, (3, HEADS, SIZE)).movedim(1, 3).unbind(1)


class DroppingOut(Weights):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1)


class ScaleOne(Weights):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)


class NotCausal(Weights):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


class InDoublePrecision(Weights):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = q.double(), k.double(), v.double()
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).float()


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"neox-functional-{name}",
        reference="GPT-NeoX",
        style="functional",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


def sound(name: str, make: Callable[[], Pair]) -> Port:
    return Port(name=f"neox-functional-{name}", reference="GPT-NeoX", style="functional", make=make)


PORTS = (
    fault("all-turned", pair(AllTurned), "rotary-share", QKV, "1", "whole", "all"),
    fault("quarter-turned", pair(QuarterTurned), "rotary-share", QKV, "0.25", "quarter", "2"),
    fault("neighbours", pair(Neighbours), "rotary-pairing", QKV, "2i", "interleaved"),
    fault(
        "three-blocks",
        pair(ThreeBlocks),
        "split-order",
        QKV,
        "order",
        "head",
        "interleave",
        also=("heads-permuted",),
    ),
    fault("dropping-out", pair(DroppingOut), "dropout", ("weights",), "dropout"),
    fault("scale-one", pair(ScaleOne), "scale", SCORES, "head_dim"),
    fault("not-causal", pair(NotCausal), "mask-missing", ("scores",), "causal"),
)

SOUND = (
    sound("sound", pair()),
    sound("in-double-precision", pair(InDoublePrecision)),
)
