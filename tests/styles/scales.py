"""Where the scale is applied, in what form; soft caps; precision."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Core, Projections, core, seeded, split, usual
from .truth import ROOT, Style, Truth, attend


def on_query(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The query is scaled in place."""
    q = q.clone()
    q *= 8**-0.5
    return (q @ k.mT).softmax(-1) @ v


def on_key(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The key is scaled."""
    return (q @ (k / math.sqrt(8)).transpose(-1, -2)).softmax(-1) @ v


def on_both(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The fourth root on each side, against overflow."""
    root = 8**-0.25
    return ((q * root) @ (k * root).mT).softmax(-1) @ v


def divided_by_tensor(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The root is a tensor without axes."""
    dk = torch.tensor(k.shape[-1], dtype=torch.float32)
    return F.softmax(torch.matmul(q, k.mT) / torch.sqrt(dk), dim=-1) @ v


def alpha_of_baddbmm(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """An empty input with beta 0, the scale as alpha."""
    b, h, n, d = q.shape
    q, k, v = (t.reshape(b * h, n, d) for t in (q, k, v))
    empty = torch.empty(b * h, n, n)
    scores = torch.baddbmm(empty, q, k.transpose(-1, -2), beta=0, alpha=d**-0.5)
    return torch.bmm(scores.softmax(dim=-1), v).view(b, h, n, d)


def unscaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """No scale, on purpose: the initialisation takes care of it."""
    return torch.matmul(torch.matmul(q, k.transpose(3, 2)).softmax(-1), v)


def inverse_width(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """1/d instead of 1/√d."""
    return (q @ k.mT / q.shape[-1]).softmax(-1) @ v


def two_places(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """By the width, then by the layer's number."""
    w = q @ k.mT / v.size(-1) ** 0.5
    w = w / float(2 + 1)
    return w.softmax(-1) @ v


def down_and_up(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Divided by the layer's number for half precision, multiplied back before the softmax."""
    coefficient = 3.0
    w = torch.matmul(q / (8**0.5 * coefficient), k.mT)
    return (w * coefficient).softmax(-1) @ v


def float32_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Everything in bfloat16 but the softmax."""
    q, k, v = q.bfloat16(), k.bfloat16(), v.bfloat16()
    weights = torch.matmul(q, k.transpose(2, 3)) * 8**-0.5
    weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(weights, v).float()


def half_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores in float16, cast by hand up and down again."""
    scores = q.half() @ k.half().mT / 8**0.5
    return (scores.float().softmax(-1).type_as(scores) @ v.half()).float()


def soft_cap(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Three steps: divide, tanh, multiply; the cap is low so that it matters."""
    scores = q @ k.transpose(2, 3) * 8**-0.5
    scores = scores / 0.5
    scores = torch.tanh(scores)
    scores = scores * 0.5
    return scores.softmax(-1) @ v


def soft_cap_in_place(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The scale and the cap in one factor, tanh_ in place."""
    cap = 0.7
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    scores = scores.mul_(8**-0.5 / cap).tanh_().mul_(cap)
    return torch.einsum("bhqk,bhkd->bhqd", F.softmax(scores, -1), v)


class Autocast(Projections):
    """The whole attention under autocast to bfloat16."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        with torch.autocast("cpu", dtype=torch.bfloat16):
            q, k, v = (split(f(x), self.heads) for f in (self.q, self.k, self.v))
            weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(8), dim=-1)
            return self.out((weights @ v).transpose(1, 2).flatten(2)).float()


class Buffer(Core):
    """The scale is a buffer."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.register_buffer("scale", torch.tensor(8.0).rsqrt())

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend."""
        return torch.softmax(torch.mul(q @ k.mT, self.scale), -1) @ v


class Temperature(Core):
    """A learned temperature, of one number or one a head."""

    def __init__(self, *shape: int) -> None:
        super().__init__(self.attend)
        self.temperature = nn.Parameter(torch.rand(shape) + 0.5)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend with scores times temperature."""
        return ((q @ k.transpose(-2, -1)) * self.temperature).softmax(dim=-1) @ v


class Cosine(Core):
    """Cosine attention: unit q and k, a learned logarithm of the scale, clamped."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.logit_scale = nn.Parameter(torch.log(10 * torch.rand(3, 1, 1) + 1))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend by cosine."""
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        logit_scale = torch.clamp(self.logit_scale, max=math.log(1.0 / 0.01)).exp()
        return (attn * logit_scale).softmax(-1) @ v


def cosine_truth(m: Any, inputs: Any) -> Truth:
    """Query and key are the unit vectors."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    q, k = (t / t.norm(dim=-1, keepdim=True) for t in (q, k))
    return attend(q, k, v, m.logit_scale.exp())


def bfloat_truth(m: Any, inputs: Any) -> Truth:
    """Query, key and value rounded to bfloat16, the rest exact."""
    q, k, v = (split(f(inputs[0]), 3).bfloat16().float() for f in (m.q, m.k, m.v))
    return attend(q, k, v)


def capped(cap: float) -> Any:
    """Truth with a soft cap."""
    return usual(softcap=cap)


class LogLength(Core):
    """The scale grows with the logarithm of the number of keys."""

    def __init__(self) -> None:
        super().__init__(self.attend)
        self.s = nn.Parameter(torch.tensor([0.4, 0.6, 0.9]))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend, the query scaled per head."""
        q = q * (self.s * math.log(k.shape[-2]))[None, :, None, None]
        return (q @ k.mT).softmax(-1) @ v


def log_length_truth(m: Any, inputs: Any) -> Truth:
    """Queries with their factor: it is learned per head, like the gain of a norm."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    return attend(q * (m.s.view(3, 1, 1) * math.log(5)), k, v, 1.0)


STYLES: tuple[Style, ...] = (
    Style(name="scale-on-query", build=core(on_query), truth=usual()),
    Style(name="scale-on-key", build=core(on_key), truth=usual()),
    Style(name="scale-on-both-fourth-root", build=core(on_both), truth=usual()),
    Style(
        name="scale-divided-by-tensor",
        build=core(divided_by_tensor),
        scale_tensor=True,
        truth=usual(),
    ),
    Style(name="scale-baddbmm-alpha", build=core(alpha_of_baddbmm), truth=usual()),
    Style(name="scale-none", build=core(unscaled), scale=1.0, truth=usual(1.0)),
    Style(name="scale-inverse-width", build=core(inverse_width), scale=1 / 8, truth=usual(1 / 8)),
    Style(name="scale-two-places", build=core(two_places), scale=ROOT / 3, truth=usual(ROOT / 3)),
    Style(name="scale-down-and-up", build=core(down_and_up), truth=usual()),
    Style(name="scale-buffer", build=seeded(Buffer), scale_tensor=True, truth=usual()),
    Style(
        name="scale-learned-scalar",
        build=seeded(Temperature, 1),
        scale=None,
        scale_tensor=True,
        truth=usual(lambda m: m.temperature),
    ),
    Style(
        name="scale-learned-per-head",
        build=seeded(Temperature, 3, 1, 1),
        scale=None,
        scale_tensor=True,
        truth=usual(lambda m: m.temperature),
    ),
    Style(
        name="scale-log-length-per-head",
        build=seeded(LogLength),
        scale=1.0,
        truth=log_length_truth,
        note="a learned factor per head on the query is part of the query",
    ),
    Style(
        name="scale-cosine",
        build=seeded(Cosine),
        scale=None,
        scale_tensor=True,
        truth=cosine_truth,
    ),
    Style(
        name="cast-bfloat16-softmax-float32",
        build=core(float32_softmax),
        truth=bfloat_truth,
        tolerance=2**-8,
    ),
    Style(name="cast-half-by-hand", build=core(half_scores), truth=usual(), tolerance=2**-11),
    Style(name="cast-autocast", build=seeded(Autocast), truth=usual(), tolerance=2**-8),
    Style(name="softcap-three-steps", build=core(soft_cap), softcap=0.5, truth=capped(0.5)),
    Style(name="softcap-in-place", build=core(soft_cap_in_place), softcap=0.7, truth=capped(0.7)),
)
