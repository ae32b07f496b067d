"""An encoder layer around attention that is torch's own or by hand: norms, residuals, dropout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .case import QKV, SCORES, Pair, Port
from .originals import HEADS, WIDTH, encoder_layer, hidden


class Encoder(nn.Module):
    """Post-norm; attention from a fused projection, heads moved by rearranging axes."""

    epsilon, rate = 1e-5, 0.1

    def __init__(self) -> None:
        super().__init__()
        self.wqkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.wo = nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 48), nn.Linear(48, WIDTH)
        self.ln1 = nn.LayerNorm(WIDTH, eps=self.epsilon)
        self.ln2 = nn.LayerNorm(WIDTH, eps=self.epsilon)

    def mixed(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q, k, v = self.wqkv(x).view(n, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = torch.softmax(q.mul(q.shape[-1] ** -0.5) @ k.transpose(-1, -2), -1) @ v
        return self.wo(y.permute(0, 2, 1, 3).flatten(2))

    def fed(self, x: Tensor) -> Tensor:
        return self.fc2(F.relu(self.fc1(x)))

    def forward(self, src: Tensor) -> Tensor:
        x = self.ln1(src + self.mixed(src))
        return self.ln2(x + self.fed(x))


class PreNorm(Encoder):
    def forward(self, src: Tensor) -> Tensor:
        x = src + self.mixed(self.ln1(src))
        return x + self.fed(self.ln2(x))


class Stack(nn.Module):
    """Layers one after the other."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, src: Tensor) -> Tensor:
        for layer in self.layers:
            src = layer(src)
        return src


@torch.no_grad()
def fill(layer: Encoder, original: Any) -> Encoder:
    layer.wqkv.weight.copy_(original.self_attn.in_proj_weight)
    layer.wqkv.bias.copy_(original.self_attn.in_proj_bias)
    layer.wo.load_state_dict(original.self_attn.out_proj.state_dict())
    layer.fc1.load_state_dict(original.linear1.state_dict())
    layer.fc2.load_state_dict(original.linear2.state_dict())
    layer.ln1.load_state_dict(original.norm1.state_dict())
    layer.ln2.load_state_dict(original.norm2.state_dict())
    return layer


def pair(
    *layers: type[Encoder], norm_first: bool = False, small: float = 1.0
) -> Callable[[], Pair]:
    """Return a stack of ported layers against a stack of torch's own."""

    def make() -> Pair:
        originals = [encoder_layer(seed, norm_first=norm_first) for seed in range(len(layers))]
        ported = [fill(kind(), o) for kind, o in zip(layers, originals, strict=True)]
        return Pair(Stack(list(ported)).eval(), Stack(list(originals)).eval(), (hidden() * small,))

    return make


class NoSecondNorm(Encoder):
    def forward(self, src: Tensor) -> Tensor:
        x = self.ln1(src + self.mixed(src))
        return x + self.fed(x)


class NormTaken(Encoder):
    """The residual is taken after the norm."""

    def forward(self, src: Tensor) -> Tensor:
        y = self.ln1(src)
        x = y + self.mixed(y)
        return x + self.fed(self.ln2(x))


class Doubled(Encoder):
    def forward(self, src: Tensor) -> Tensor:
        x = self.ln1(src + src + self.mixed(src))
        return self.ln2(x + self.fed(x))


class WithoutInput(Encoder):
    def forward(self, src: Tensor) -> Tensor:
        x = self.ln1(self.mixed(src))
        return self.ln2(x + self.fed(x))


class LargeEpsilon(PreNorm):
    epsilon = 1e-3


class NoFirstNorm(PreNorm):
    def forward(self, src: Tensor) -> Tensor:
        x = src + self.mixed(src)
        return x + self.fed(self.ln2(x))


class MemoryDetached(Encoder):
    """The value path carries no gradient."""

    def mixed(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q, k, v = self.wqkv(x).view(n, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = torch.softmax(q.mul(q.shape[-1] ** -0.5) @ k.transpose(-1, -2), -1) @ v.detach()
        return self.wo(y.permute(0, 2, 1, 3).flatten(2))


class ScaledTwice(Encoder):
    def mixed(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q, k, v = self.wqkv(x).view(n, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q / q.shape[-1] ** 0.5, k, v)
        return self.wo(y.permute(0, 2, 1, 3).flatten(2))


class BiasTwice(Encoder):
    def mixed(self, x: Tensor) -> Tensor:
        return super().mixed(x) + self.wo.bias


class Fused(Encoder):
    def mixed(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q, k, v = self.wqkv(x).view(n, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.wo(y.permute(0, 2, 1, 3).flatten(2))


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"encoder-{name}",
        reference="nn.TransformerEncoderLayer",
        style="one class",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


def sound(name: str, make: Callable[[], Pair]) -> Port:
    return Port(
        name=f"encoder-{name}",
        reference="nn.TransformerEncoderLayer",
        style="one class",
        make=make,
    )


IN, END = ("input", *QKV), {"call": None}
PRE: dict[str, Any] = {"norm_first": True}
PORTS = (
    fault("pre-for-post", pair(PreNorm), "norm-place", IN, "norm"),
    fault("post-for-pre", pair(Encoder, **PRE), "norm-place", IN, "norm"),
    fault(
        "norm-taken",
        pair(NormTaken, **PRE),
        "norm-place",
        ("model",),
        "norm",
        also=("residual-missing", "residual-place"),
        **END,
    ),
    fault(
        "no-second-norm",
        pair(Encoder, NoSecondNorm, Encoder),
        "norm-missing",
        ("input",),
        "norm",
        call=2,
    ),
    fault("no-first-norm", pair(PreNorm, NoFirstNorm, **PRE), "norm-missing", IN, "norm", call=1),
    fault(
        "doubled",
        pair(Doubled),
        "residual-doubled",
        ("model",),
        "residual added twice",
        "residual twice",
        **END,
    ),
    fault(
        "doubled-in-the-stack",
        pair(Encoder, Doubled, Encoder),
        "residual-doubled",
        ("input",),
        "residual added twice",
        "residual twice",
        call=2,
    ),
    fault(
        "without-input",
        pair(WithoutInput),
        "residual-missing",
        ("model",),
        "residual missing",
        "no residual",
        **END,
    ),
    fault(
        "large-epsilon",
        pair(LargeEpsilon, **PRE, small=0.05),
        "norm-eps",
        IN,
        "0.001",
        "1e-3",
        "1e-03",
    ),
    fault(
        "values-detached",
        pair(MemoryDetached),
        "gradient-stopped",
        ("grad.v", "grad.input"),
        "detach",
    ),
    fault(
        "scaled-twice",
        pair(Encoder, Encoder, ScaledTwice),
        "scale",
        ("q", *SCORES),
        "1/head_dim",
        call=2,
    ),
    fault(
        "bias-twice",
        pair(Encoder, BiasTwice),
        "projection-bias",
        ("output", "model"),
        "bias",
        call=(1, None),
    ),
)

SOUND = (
    sound("post", pair(Encoder, Encoder)),
    sound("pre", pair(PreNorm, PreNorm, **PRE)),
    sound("fused", pair(Fused, Encoder, Fused)),
)
