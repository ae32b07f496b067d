"""Gemma-2 from lists of tensors, written for speed by somebody who dislikes classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.ports.case import SCORES, WEIGHTS, Pair, Port
from tests.ports.originals import gemma2, padded

CAP, SCALAR, WINDOW, SIZE = 1.5, 12, 4, 8


class Attend(nn.Module):
    """One layer's attention; ``local`` layers see a window."""

    def __init__(self, theirs: Any, *, local: bool) -> None:
        super().__init__()
        self.local = local
        weights = [theirs.q_proj.weight, theirs.k_proj.weight, theirs.v_proj.weight]
        self.into = nn.ParameterList(nn.Parameter(w.clone()) for w in weights)
        self.back = nn.Parameter(theirs.o_proj.weight.clone())

    def spin(self, x: Tensor) -> Tensor:
        angle = torch.outer(
            torch.arange(x.shape[-2]), 10000.0 ** -(torch.arange(SIZE // 2) * 2 / SIZE)
        )
        z = torch.complex(*x.chunk(2, dim=-1)) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat((z.real, z.imag), dim=-1)

    def prepare(self, q: Tensor) -> Tensor:
        return q * SCALAR**-0.5

    def bend(self, scores: Tensor) -> Tensor:
        return CAP * (scores / CAP).tanh()

    def bound(self) -> int:
        return WINDOW if self.local else 10**6

    def see(self, keep: Tensor) -> Tensor:
        at = torch.arange(keep.shape[1])
        ago = at[:, None] - at
        return ((ago >= 0) & (ago < self.bound()))[None, None] & keep[:, None, None].bool()

    def finish(self, scores: Tensor, see: Tensor) -> Tensor:
        return F.softmax(torch.where(see, self.bend(scores), -1e30), dim=-1)

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        q, k, v = ((x @ w.T).unflatten(-1, (-1, SIZE)).transpose(1, 2) for w in self.into)
        q, k = self.prepare(self.spin(q)), self.spin(k)
        # Two query heads share a key head: their queries are laid one below the other.
        n, heads, t, _ = q.shape
        q = q.reshape(n, k.shape[1], -1, SIZE)
        scores = (q @ k.mT).view(n, heads, t, t)
        weights = self.finish(scores, self.see(keep))
        y = weights.reshape(n, k.shape[1], -1, t) @ v
        return y.view(n, heads, t, SIZE).transpose(1, 2).flatten(2) @ self.back.T


class Gemma(nn.Module):
    """Norms by hand; the weights hold what is added to one."""

    epsilon, norms_after = 1e-6, True

    def __init__(self, theirs: Any, attend: type[Attend] = Attend) -> None:
        super().__init__()
        self.table = nn.Parameter(theirs.embed_tokens.weight.clone())
        self.attends = nn.ModuleList(
            attend(layer.self_attn, local=i % 2 == 0) for i, layer in enumerate(theirs.layers)
        )
        self.mlps, self.gains = nn.ModuleList(), nn.ModuleList()
        for layer in theirs.layers:
            f = layer.mlp
            matrices = [f.gate_proj.weight, f.up_proj.weight, f.down_proj.weight]
            self.mlps.append(nn.ParameterList(nn.Parameter(m.clone()) for m in matrices))
            norms = [
                layer.input_layernorm,
                layer.post_attention_layernorm,
                layer.pre_feedforward_layernorm,
                layer.post_feedforward_layernorm,
            ]
            self.gains.append(nn.ParameterList(nn.Parameter(g.weight.clone()) for g in norms))
        self.last = nn.Parameter(theirs.norm.weight.clone())

    def norm(self, x: Tensor, gain: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + self.epsilon).rsqrt() * (1 + gain)

    def after(self, x: Tensor, gain: Tensor) -> Tensor:
        return self.norm(x, gain) if self.norms_after else x

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.table[input_ids] * self.table.shape[1] ** 0.5
        layers: Any = zip(self.attends, self.mlps, self.gains, strict=True)
        for attend, mlp, gains in layers:
            a, b, c, d = gains
            x = x + self.after(attend(self.norm(x, a), attention_mask), b)
            gate, up, down = mlp
            y = self.norm(x, c)
            x = x + self.norm(F.gelu(y @ gate.T, approximate="tanh") * (y @ up.T) @ down.T, d)
        return self.norm(x, self.last)


def pair(attend: type[Attend] = Attend, model: type[Gemma] = Gemma) -> Callable[[], Pair]:
    def make() -> Pair:
        original = gemma2()
        return Pair(model(original, attend).eval(), original, padded())

    return make


class Uncapped(Attend):
    def bend(self, scores: Tensor) -> Tensor:
        return scores


class CappedElsewhere(Attend):
    def bend(self, scores: Tensor) -> Tensor:
        return 50.0 * (scores / 50.0).tanh()


class CappedAfterMask(Attend):
    """Masks first, so that the cap makes -1e30 a mere -1.5."""

    def finish(self, scores: Tensor, see: Tensor) -> Tensor:
        return F.softmax(self.bend(torch.where(see, scores, -1e30)), dim=-1)


class ScaledAsUsual(Attend):
    def prepare(self, q: Tensor) -> Tensor:
        return q * SIZE**-0.5


class WindowEverywhere(Attend):
    def bound(self) -> int:
        return WINDOW


class WindowNowhere(Attend):
    def bound(self) -> int:
        return 10**6


class OneShorter(Attend):
    def bound(self) -> int:
        return WINDOW - 1 if self.local else 10**6


class HalfFloat(Attend):
    def finish(self, scores: Tensor, see: Tensor) -> Tensor:
        low = torch.where(see, self.bend(scores), -1e30).to(torch.bfloat16)
        return F.softmax(low, dim=-1).to(scores.dtype)


class NoNormAfter(Gemma):
    norms_after = False


def fault(
    name: str, make: Callable[[], Pair], key: str, stages: tuple[str, ...], *says: str, **more: Any
) -> Port:
    return Port(
        name=f"gemma2-lists-{name}",
        reference="Gemma-2",
        style="lists of tensors",
        make=make,
        key=key,
        stages=stages,
        says=says,
        **more,
    )


S = ("scores",)
PORTS = (
    fault("uncapped", pair(Uncapped), "softcap", S, "cap"),
    fault("capped-elsewhere", pair(CappedElsewhere), "softcap", S, "50"),
    fault("capped-after-mask", pair(CappedAfterMask), "mask-fill", S, "1.5", also=("softcap",)),
    fault("scaled-as-usual", pair(ScaledAsUsual), "scale", ("q", *SCORES), "head_dim"),
    fault(
        "window-everywhere",
        pair(WindowEverywhere),
        "window",
        S,
        "of 4",
        call=1,
        also=("mask-extra",),
    ),
    fault("window-nowhere", pair(WindowNowhere), "mask-missing", S, "window", also=("window",)),
    fault("one-shorter", pair(OneShorter), "window", S, "of 3"),
    fault("half-float", pair(HalfFloat), "rounding", WEIGHTS, "bfloat16"),
    fault("no-norm-after", pair(model=NoNormAfter), "norm-missing", ("input",), "norm", call=1),
)

SOUND = (
    Port(name="gemma2-lists-sound", reference="Gemma-2", style="lists of tensors", make=pair()),
)
