"""Attention on maps and series: grids, axes, few keys instead of many, variates as tokens."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Projections, merge, noise, seeded, split, usual
from .truth import ROOT, Style, Truth, attend


class Agents(Projections):
    """A few pooled queries read the keys; the queries read the agents."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x, through two agents."""
        q, k, v = (split(f(x), 3) for f in (self.q, self.k, self.v))
        agents = F.adaptive_avg_pool1d(q.transpose(-1, -2).flatten(0, 1), 2)
        agents = agents.view(*q.shape[:2], 8, 2).transpose(-1, -2)
        agent_v = ((agents * 8**-0.5) @ k.mT).softmax(dim=-1) @ v
        return self.out(merge(((q * 8**-0.5) @ agents.mT).softmax(dim=-1) @ agent_v))


def agents_truth(m: Any, inputs: Any) -> Truth:
    """The second product: agents are keys, what they read is the values."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    agents = torch.stack((q[:, :, :3].mean(2), q[:, :, 2:].mean(2)), 2)
    return attend(q, agents, attend(agents, k, v).read)


class Grid(nn.Module):
    """Sparse global attention on a 4x6 map: places two, three apart form a window."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(20, 72), nn.Linear(24, 20)

    def forward(self, x: Tensor) -> Tensor:
        """Attend among the six places of each grid."""
        B, H, W, C = x.shape
        x = x.view(B, 2, H // 2, 3, W // 3, C).permute(0, 2, 4, 1, 3, 5).reshape(-1, 6, C)
        q, k, v = self.qkv(x).view(-1, 6, 3, 3, 8).permute(2, 0, 3, 1, 4).unbind(0)
        x = ((q * 8**-0.5) @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        x = self.out(x.transpose(1, 2).reshape(-1, 6, 24))
        x = x.view(B, H // 2, W // 3, 2, 3, 20).permute(0, 3, 1, 4, 2, 5)
        return x.reshape(B, H, W, 20)


def grid_truth(m: Any, inputs: Any) -> Truth:
    """Four grids a sample, taken by strided slices."""
    (x,) = inputs
    grids = [x[:, i::2, j::2].flatten(1, 2) for i in range(2) for j in range(2)]
    q, k, v = m.qkv(torch.stack(grids, 1).flatten(0, 1)).chunk(3, -1)
    return attend(split(q, 3), split(k, 3), split(v, 3))


def grid_output(m: Any, truth: Truth) -> Tensor:
    """Write the grids back."""
    parts = m.out(truth.merged).view(2, 2, 2, 2, 3, 20)
    result = torch.empty(2, 4, 6, 20)
    for i in range(2):
        for j in range(2):
            result[:, i::2, j::2] = parts[:, i, j]
    return result


class Axial(nn.Module):
    """Along the rows of a map, then along its columns, channels last by permutes."""

    def __init__(self) -> None:
        super().__init__()
        self.row, self.column = Projections(), Projections()

    @staticmethod
    def along(m: Projections, x: Tensor) -> Tensor:
        """Attend along the last but one axis of x."""
        q, k, v = (f(x).unflatten(-1, (3, 8)) for f in (m.q, m.k, m.v))
        a = torch.einsum("xyihd,xyjhd->xyhij", q, k).mul(8**-0.5).softmax(-1)
        return m.out(torch.einsum("xyhij,xyjhd->xyihd", a, v).flatten(-2))

    def forward(self, x: Tensor) -> Tensor:
        """Attend on x ``(batch, channels, height, width)``."""
        x = x.permute(0, 2, 3, 1)
        x = x + self.along(self.row, x)
        x = x + self.along(self.column, x.transpose(1, 2)).transpose(1, 2)
        return x.permute(0, 3, 1, 2)


def axial_truth(m: Any, inputs: Any) -> Truth:
    """Columns, folded into the batch, after the rows."""
    x = inputs[0].permute(0, 2, 3, 1)
    x = x + m.row.out(usual()(m.row, (x.flatten(0, 1),)).merged).view_as(x)
    return usual()(m.column, (x.transpose(1, 2).flatten(0, 1),))


class ReducedKeys(nn.Module):
    """A pyramid: a strided convolution makes fewer keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(20, 24), nn.Linear(20, 48), nn.Linear(24, 20)
        self.sr, self.norm = nn.Conv2d(20, 20, 2, 2), nn.LayerNorm(20)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x ``(batch, 4 * 6, width)``."""
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, 3, 8).permute(0, 2, 1, 3)
        x_ = self.norm(self.sr(x.permute(0, 2, 1).reshape(B, C, 4, 6)).reshape(B, C, -1).mT)
        kv = self.kv(x_).reshape(B, -1, 2, 3, 8).permute(2, 0, 3, 1, 4)
        attn = (q @ kv[0].transpose(-2, -1)) * 8**-0.5
        return self.out((attn.softmax(dim=-1) @ kv[1]).transpose(1, 2).reshape(B, N, 24))


def reduced_truth(m: Any, inputs: Any) -> Truth:
    """Six keys."""
    (x,) = inputs
    few = m.norm(m.sr(x.mT.unflatten(2, (4, 6))).flatten(2).mT)
    k, v = m.kv(few).chunk(2, -1)
    return attend(split(m.q(x), 3), split(k, 3), split(v, 3))


class ProjectedLength(Projections):
    """Keys and values of five tokens are mixed into three by parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.E, self.F = (nn.Parameter(torch.randn(5, 3)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v = (split(f(x), 3) for f in (self.q, self.k, self.v))
        k = torch.einsum("bhnd,nk->bhkd", k, self.E)
        v = torch.einsum("bhnd,nk->bhkd", v, self.F)
        dots = torch.einsum("bhnd,bhkd->bhnk", q, k) * 8**-0.5
        return self.out(merge(torch.einsum("bhnk,bhkd->bhnd", dots.softmax(-1), v)))


def projected_truth(m: Any, inputs: Any) -> Truth:
    """Three keys."""
    q, k, v = (split(f(inputs[0]), 3) for f in (m.q, m.k, m.v))
    return attend(q, m.E.T @ k, m.F.T @ v)


class Variates(Projections):
    """A forecaster: the variates of a series are the tokens, their history the features."""

    def forward(self, series: Tensor) -> Tensor:
        """Attend among the variates of series ``(batch, 20 times, variates)``."""
        x = series.permute(0, 2, 1)
        B, N, _ = x.shape
        q, k, v = (f(x).view(B, N, 3, -1) for f in (self.q, self.k, self.v))
        scores = torch.einsum("blhe,bshe->bhls", q, k)
        A = torch.softmax((1.0 / math.sqrt(8)) * scores, dim=-1)
        return self.out(torch.einsum("bhls,bshd->blhd", A, v).reshape(B, N, -1)).permute(0, 2, 1)


STYLES: tuple[Style, ...] = (
    Style(name="agents", build=seeded(Agents), calls=2, keys=2, truth=agents_truth),
    Style(
        name="grid-on-a-map", build=seeded(Grid), inputs=lambda: (noise(2, 4, 6, 20),),
        batch=8, queries=6, keys=6, truth=grid_truth, output=grid_output,
    ),
    Style(
        name="axial-rows-then-columns", build=seeded(Axial), calls=2, batch=12, queries=4,
        keys=4, inputs=lambda: (noise(2, 20, 4, 6),), truth=axial_truth, output=None,
    ),
    Style(
        name="keys-reduced-by-convolution", build=seeded(ReducedKeys),
        inputs=lambda: (noise(2, 24, 20),), queries=24, keys=6, truth=reduced_truth,
    ),
    Style(
        name="length-projected", build=seeded(ProjectedLength), keys=3, truth=projected_truth,
    ),
    Style(
        name="variates-as-tokens", build=seeded(Variates), inputs=lambda: (noise(2, 20, 5),),
        truth=lambda m, i: usual()(m, (i[0].permute(0, 2, 1),)),
        output=lambda m, t: m.out(t.merged).permute(0, 2, 1), scale=ROOT,
    ),
)  # fmt: skip
