"""OPT with nn.MultiheadAttention inside, or with its own attention by F.linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.ports.case import QKV, SCORES, Pair, Port
from tests.ports.originals import HEADS, LENGTH, VOCABULARY, WIDTH, opt, token_ids


class TorchLayer(nn.Module):
    """The attention is torch's own."""

    def __init__(self) -> None:
        super().__init__()
        self.mha = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.ff = nn.Sequential(nn.Linear(WIDTH, 48), nn.ReLU(), nn.Linear(48, WIDTH))

    def mask(self) -> Tensor:
        """Return True where attention is not allowed."""
        return torch.ones(LENGTH, LENGTH).triu(1).bool()

    def mix(self, x: Tensor) -> Tensor:
        y, _ = self.mha(x, x, x, attn_mask=self.mask(), need_weights=False)
        return y

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.before(x))
        return x + self.ff(self.between(x))


class Opt(nn.Module):
    offset = 2

    def __init__(self, layer: type[TorchLayer], layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(18, WIDTH)
        self.layers = nn.ModuleList(layer() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]) + self.offset)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def packed(attention: Any, name: str, order: str = "qkv") -> Tensor:
    return torch.cat([getattr(getattr(attention, f"{part}_proj"), name) for part in order])


@torch.no_grad()
def fill(model: Any, original: Any, order: str = "qkv") -> None:
    decoder = original.decoder
    model.tokens.load_state_dict(decoder.embed_tokens.state_dict())
    model.positions.weight.copy_(decoder.embed_positions.weight)
    model.norm.load_state_dict(decoder.final_layer_norm.state_dict())
    for layer, theirs in zip(model.layers, decoder.layers, strict=True):
        layer.mha.in_proj_weight.copy_(packed(theirs.self_attn, "weight", order))
        layer.mha.in_proj_bias.copy_(packed(theirs.self_attn, "bias", order))
        layer.mha.out_proj.load_state_dict(theirs.self_attn.out_proj.state_dict())
        layer.before.load_state_dict(theirs.self_attn_layer_norm.state_dict())
        layer.between.load_state_dict(theirs.final_layer_norm.state_dict())
        layer.ff[0].load_state_dict(theirs.fc1.state_dict())
        layer.ff[2].load_state_dict(theirs.fc2.state_dict())


def pair(
    layer: type[TorchLayer] = TorchLayer, model: type[Opt] = Opt, order: str = "qkv"
) -> Callable[[], Pair]:
    def make() -> Pair:
        original = opt()
        ported = model(layer, original.config.num_hidden_layers).eval()
        fill(ported, original, order)
        return Pair(ported, original, (token_ids(),))

    return make


class FromZero(Opt):
    offset = 0


class Unmasked(TorchLayer):
    def mix(self, x: Tensor) -> Tensor:
        y, _ = self.mha(x, x, x, need_weights=False)
        return y


class FloatMask(TorchLayer):
    """Ones where attention is not allowed, as a float: torch adds it."""

    def mask(self) -> Tensor:
        return torch.ones(LENGTH, LENGTH).triu(1)


class LateMask(TorchLayer):
    def mask(self) -> Tensor:
        return torch.ones(LENGTH, LENGTH).triu(2).bool()


class LengthFirst(TorchLayer):
    """Splits heads by a view and calls the kernel."""

    def mix(self, x: Tensor) -> Tensor:
        q, k, v = F.linear(x, self.mha.in_proj_weight, self.mha.in_proj_bias).chunk(3, dim=-1)
        n, t, _ = x.shape
        q, k, v = (part.reshape(n, HEADS, t, -1) for part in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.mha.out_proj(y.reshape(n, t, -1))


class OwnAttention(TorchLayer):
    def mix(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q, k, v = self.split(F.linear(x, self.mha.in_proj_weight, self.mha.in_proj_bias))
        y = self.core(q, k, v)
        return F.linear(y.transpose(1, 2).reshape(n, t, -1), *self.last())

    def split(self, x: Tensor) -> list[Tensor]:
        return [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in x.chunk(3, dim=-1)]

    def core(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def last(self) -> tuple[Tensor, Tensor]:
        return self.mha.out_proj.weight, self.mha.out_proj.bias


class OutputTurned(OwnAttention):
    def last(self) -> tuple[Tensor, Tensor]:
        return self.mha.out_proj.weight.T, self.mha.out_proj.bias


class OutputBiasDoubled(OwnAttention):
    def last(self) -> tuple[Tensor, Tensor]:
        return self.mha.out_proj.weight, 2 * self.mha.out_proj.bias


class ScaledOnBoth(OwnAttention):
    """Queries scaled in the projection, as the original does, and again in the kernel."""

    def core(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q * q.shape[-1] ** -0.5, k, v, is_causal=True)


class HeadsRolled(OwnAttention):
    def core(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).roll(1, dims=1)


class QueriesStopped(OwnAttention):
    def core(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q.detach(), k, v, is_causal=True)


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"opt-torch-{name}",
        reference="OPT",
        style="torch's own parts",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


S = ("scores",)
PORTS = (
    fault("from-zero", pair(model=FromZero), "positions-shifted", ("input", *QKV), "by -2", "by 2"),
    fault("unmasked", pair(Unmasked), "mask-missing", S, "causal"),
    fault("float-mask", pair(FloatMask), "mask-as-bias", S, "added", "bias"),
    fault("late-mask", pair(LateMask), "mask-shifted", S, "by 1", "by one"),
    fault("by-view", pair(LengthFirst), "heads-by-view", QKV, "view"),
    fault("packed-kqv", pair(order="vqk"), "split-order", QKV, "split as", "order"),
    fault("output-turned", pair(OutputTurned), "weight-transposed", ("output",), "transpose"),
    fault("output-bias-doubled", pair(OutputBiasDoubled), "projection-bias", ("output",), "bias"),
    fault("scaled-on-both", pair(ScaledOnBoth), "scale", ("q", *SCORES), "1/head_dim"),
    fault("heads-rolled", pair(HeadsRolled), "heads-permuted", ("context", "output"), "head"),
    fault(
        "queries-stopped",
        pair(QueriesStopped),
        "gradient-stopped",
        ("grad.q", "grad.input"),
        "detach",
        call=(0, 1),
    ),
)

SOUND = (
    Port(name="opt-torch-sound", reference="OPT", style="torch's own parts", make=pair()),
    Port(name="opt-own-sound", reference="OPT", style="torch's own parts", make=pair(OwnAttention)),
)
