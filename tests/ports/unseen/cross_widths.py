"""Attention of one width over another, batch first, against nn.MultiheadAttention with kdim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.ports.case import QKV, SCORES, Pair, Port, Q
from tests.ports.originals import HEADS, WIDTH, hidden, multihead

OTHER = 20


class CrossAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_q = nn.Linear(WIDTH, WIDTH)
        self.to_k, self.to_v = nn.Linear(OTHER, WIDTH), nn.Linear(OTHER, WIDTH)
        self.to_out = nn.Linear(WIDTH, WIDTH)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (HEADS, -1))

    def sim(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[-1] ** -0.5

    def attn(self, sim: Tensor) -> Tensor:
        return sim.softmax(dim=-1)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q, k, v = (
            self.split(self.to_q(query)),
            self.split(self.to_k(key)),
            self.split(self.to_v(value)),
        )
        out = torch.einsum("bhij,bjhd->bihd", self.attn(self.sim(q, k)), v)
        return self.to_out(out.flatten(-2))


@torch.no_grad()
def fill(module: Any, original: Any) -> None:
    biases = original.in_proj_bias.chunk(3)
    names = ("q", "k", "v")
    for name, bias in zip(names, biases, strict=True):
        getattr(module, f"to_{name}").weight.copy_(getattr(original, f"{name}_proj_weight"))
        getattr(module, f"to_{name}").bias.copy_(bias)
    module.to_out.load_state_dict(original.out_proj.state_dict())


def pair(attention: type[CrossAttention] = CrossAttention) -> Callable[[], Pair]:
    def make() -> Pair:
        original = multihead(kdim=OTHER)
        module = attention().eval()
        fill(module, original)
        image = hidden(2, 10, OTHER, seed=9)
        return Pair(module, original, {"query": hidden(2, 6), "key": image, "value": image})

    return make


class Strange(CrossAttention):
    """Scaled by the width of the other side."""

    def sim(self, q: Tensor, k: Tensor) -> Tensor:
        return torch.einsum("bihd,bjhd->bhij", q, k) * OTHER**-0.5


class OverQueries(CrossAttention):
    def attn(self, sim: Tensor) -> Tensor:
        return sim.softmax(dim=2)


class SumIsNotOne(CrossAttention):
    def attn(self, sim: Tensor) -> Tensor:
        return sim.sigmoid() / sim.sigmoid().sum(-1, keepdim=True)


class SizeFirst(CrossAttention):
    """Features of a head lie apart: (size, heads) for (heads, size)."""

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, HEADS)).transpose(-1, -2)


class Rounded(CrossAttention):
    def attn(self, sim: Tensor) -> Tensor:
        return sim.to(torch.float16).softmax(dim=-1).to(sim.dtype)


class Leaking(CrossAttention):
    """Dropout that nobody turned off."""

    def attn(self, sim: Tensor) -> Tensor:
        return nn.functional.dropout(sim.softmax(dim=-1), 0.3)


class Cooled(CrossAttention):
    """A factor on the weights, as left behind by an experiment."""

    def attn(self, sim: Tensor) -> Tensor:
        return 0.97 * sim.softmax(dim=-1)


class BlindQueries(CrossAttention):
    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q = self.split(query @ self.to_q.weight.T)
        k, v = self.split(self.to_k(key)), self.split(self.to_v(value))
        out = torch.einsum("bhij,bjhd->bihd", self.attn(self.sim(q, k)), v)
        return self.to_out(out.flatten(-2))


def fault(
    name: str,
    attention: type[CrossAttention],
    key: str,
    stages: tuple[str, ...],
    *says: str,
    **more: Any,
) -> Port:
    return Port(
        name=f"cross-{name}",
        reference="nn.MultiheadAttention",
        style="einsum, two widths",
        make=pair(attention),
        key=key,
        stages=stages,
        says=says,
        **more,
    )


W = ("weights",)
PORTS = (
    fault("scale-of-the-other", Strange, "scale", SCORES, "0.2236", "0.224", "kdim", "20"),
    fault("over-queries", OverQueries, "softmax-axis", W, "quer"),
    fault("sigmoid-shares", SumIsNotOne, "normaliser", W, "sigmoid", "normalis"),
    fault("rounded", Rounded, "rounding", ("scores", "weights"), "float16"),
    fault("leaking", Leaking, "dropout", W, "0.3"),
    fault("cooled", Cooled, "weights-factor", ("weights", "context"), "0.97"),
    fault("blind-queries", BlindQueries, "projection-bias", Q, "bias"),
    fault(
        "size-first",
        SizeFirst,
        "split-order",
        QKV,
        "head",
        also=("heads-permuted", "heads-by-view"),
    ),
)

SOUND = (
    Port(
        name="cross-sound",
        reference="nn.MultiheadAttention",
        style="einsum, two widths",
        make=pair(),
    ),
)
