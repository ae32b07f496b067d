"""Attention as whole models write it: ports, vision, graphs, recommenders, proteins, speech."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Projections, lower, merge, noise, seeded, split, usual
from .truth import ROOT, Style, Truth, attend


class OddSplits(nn.Module):
    """One layer for everything: 24 query, 8 key, 6 value features and a gate of 18."""

    def __init__(self) -> None:
        super().__init__()
        self.fused = nn.Linear(20, 24 + 8 + 6 + 18)
        self.out = nn.Linear(18, 20)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x, causally."""
        b, n, _ = x.shape
        q, k, v, gate = self.fused(x).split((24, 8, 6, 18), dim=-1)
        q = q.reshape(b, n, 3, 8).transpose(1, 2) * 8**-0.5
        sim = torch.einsum("b h i d, b j d -> b h i j", q, k)
        mask = torch.ones(n, n, dtype=torch.bool).triu(1)
        attn = sim.masked_fill(mask, -torch.finfo(sim.dtype).max).softmax(dim=-1)
        context = torch.einsum("b h i j, b j d -> b h i d", attn, v)
        return self.out(context.transpose(1, 2).reshape(b, n, -1) * F.silu(gate))


def odd_truth(m: Any, inputs: Any) -> Truth:
    """One key/value head."""
    q, k, v, _ = m.fused(inputs[0]).split((24, 8, 6, 18), -1)
    return attend(split(q, 3), k[:, None], v[:, None], visible=lower())


def odd_output(m: Any, truth: Truth) -> Tensor:
    """The gate on the merged context."""
    (x,) = (noise(2, 5, 20),)
    return m.out(truth.merged * F.silu(m.fused(x)[..., -18:]))


class HeadModules(nn.Module):
    """A ModuleList of small layers a head, stacked, then all heads at once."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (
            nn.ModuleList(nn.Linear(20, 8, bias=False) for _ in range(3)) for _ in range(3)
        )
        self.out = nn.Linear(24, 20)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x; heads are the first axis."""
        q = torch.stack([layer(x) for layer in self.q])
        k = torch.stack([layer(x) for layer in self.k])
        v = torch.stack([layer(x) for layer in self.v])
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(8)
        heads = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.out(torch.cat(list(heads.unbind(0)), dim=-1))


def head_modules_truth(m: Any, inputs: Any) -> Truth:
    """Layers side by side."""
    stacks = (torch.stack([f(inputs[0]) for f in layers], 1) for layers in (m.q, m.k, m.v))
    return attend(*stacks)


class KerasPort(nn.Module):
    """Letters of another framework: aecd,abcd->acbe, keys first; (1 - mask) times -1e9."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Parameter(torch.randn(20, 3, 8) * 0.2) for _ in range(3))
        self.o = nn.Parameter(torch.randn(3, 8, 20) * 0.2)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """Attend within x."""
        query, key, value = (torch.einsum("abc,cde->abde", x, w) for w in (self.q, self.k, self.v))
        query = torch.multiply(query, 1.0 / math.sqrt(8.0))
        scores = torch.einsum("aecd,abcd->acbe", key, query)
        scores = scores + (1.0 - attention_mask[:, None, None, :].to(scores.dtype)) * -1e9
        weights = F.softmax(scores, dim=-1)
        output = torch.einsum("acbe,aecd->abcd", weights, value)
        return torch.einsum("abcd,cde->abe", output, self.o)


KEEP = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])


def keras_truth(m: Any, inputs: Any) -> Truth:
    """Parameters with a heads axis."""
    x, keep = inputs
    heads = (torch.tensordot(x, w, 1).transpose(1, 2) for w in (m.q, m.k, m.v))
    return attend(*heads, visible=keep[:, None, None, :].bool())


class FlaxPort(Projections):
    """Ellipses, a lowest number by where, exponentials with a stopped maximum."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x, causally."""
        q, k, v = (f(x).reshape(*x.shape[:-1], 3, 8) for f in (self.q, self.k, self.v))
        weights = torch.einsum("...qhd,...khd->...hqk", q / math.sqrt(8), k)
        mask = torch.arange(5)[:, None] >= torch.arange(5)
        weights = torch.where(mask, weights, torch.finfo(weights.dtype).min)
        unnormalized = (weights - weights.max(-1, keepdim=True).values.detach()).exp()
        weights = unnormalized / unnormalized.sum(-1, keepdim=True)
        return self.out(torch.einsum("...hqk,...khd->...qhd", weights, v).flatten(-2))


class Recommender(nn.Module):
    """A port of an old port: heads in the batch, tiled masks of signs, -2³² + 1, query masks."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(18, 18) for _ in range(3))

    def forward(self, items: Tensor) -> Tensor:
        """Attend within items ``(batch, tokens, 18)``; rows of zeros are padding."""
        Q, K, V = self.q(items), self.k(items), self.v(items)
        Q_, K_, V_ = (torch.cat(torch.chunk(t, 3, dim=2), dim=0) for t in (Q, K, V))
        outputs = torch.bmm(Q_, K_.transpose(1, 2)) / (K_.size(-1) ** 0.5)
        key_masks = torch.sign(torch.abs(items).sum(-1)).repeat(3, 1)
        key_masks = key_masks.unsqueeze(1).repeat(1, items.size(1), 1)
        paddings = torch.ones_like(outputs) * (-(2**32) + 1)
        outputs = torch.where(key_masks == 0, paddings, outputs)
        tril = torch.tril(torch.ones_like(outputs[0])).unsqueeze(0).repeat(outputs.size(0), 1, 1)
        outputs = torch.where(tril == 0, paddings, outputs)
        outputs = F.softmax(outputs, dim=-1)
        query_masks = torch.sign(torch.abs(items).sum(-1)).repeat(3, 1)
        outputs = outputs * query_masks.unsqueeze(-1).repeat(1, 1, items.size(1))
        outputs = torch.bmm(outputs, V_)
        return torch.cat(torch.chunk(outputs, 3, dim=0), dim=2) + items


def basket() -> tuple[Tensor]:
    """The last two items of the first sample are padding."""
    items = noise(2, 5, 18)
    items[0, 3:] = 0
    return (items,)


def recommender_truth(m: Any, inputs: Any) -> Truth:
    """Rows of padding are zeroed after the softmax."""
    (items,) = inputs
    keep = items.abs().sum(-1) > 0
    q, k, v = (split(f(items), 3) for f in (m.q, m.k, m.v))
    return attend(
        q, k, v, 6**-0.5, visible=lower() & keep[:, None, None],
        change=lambda weights: weights * keep[:, None, :, None],
    )  # fmt: skip


class GatedUnit(nn.Module):
    """One head, query and key cheap variations of one vector, squared ReLU, a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.to_hidden, self.to_qk = nn.Linear(20, 24), nn.Linear(20, 8)
        self.gamma = nn.Parameter(torch.randn(2, 8))
        self.beta = nn.Parameter(torch.randn(2, 8) * 0.1)
        self.out = nn.Linear(12, 20)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys, values, gate."""
        v, gate = F.silu(self.to_hidden(x)).chunk(2, dim=-1)
        z = F.silu(self.to_qk(x))
        q, k = (torch.einsum("... d, h d -> ... h d", z, self.gamma) + self.beta).unbind(dim=-2)
        return q, k, v, gate

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        q, k, v, gate = self.heads(x)
        sim = torch.einsum("b i d, b j d -> b i j", q, k) / x.shape[-2]
        attn = F.relu(sim) ** 2
        return self.out(torch.einsum("b i j, b j d -> b i d", attn, v) * gate) + x


def gated_unit_truth(m: Any, inputs: Any) -> Truth:
    """One head."""
    q, k, v, _ = m.heads(inputs[0])
    return attend(
        q[:, None], k[:, None], v[:, None], 1 / 5, normalise=lambda s: s.relu().square()
    )


def gated_unit_output(m: Any, truth: Truth) -> Tensor:
    """Gate and residual."""
    x = noise(2, 5, 20)
    return m.out(truth.merged * m.heads(x)[3]) + x


class RowsWithPairs(nn.Module):
    """Rows of an alignment attend along the residues, biased by pairs, masked, gated."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(20, 24, bias=False) for _ in range(3))
        self.pair, self.gate, self.out = nn.Linear(6, 3), nn.Linear(20, 24), nn.Linear(24, 20)

    def forward(self, m: Tensor, z: Tensor, mask: Tensor) -> Tensor:
        """Update m ``(batch, rows, residues, width)`` by pairs z and mask."""
        q = self.q(m).view(*m.shape[:-1], 3, -1).transpose(-2, -3) / math.sqrt(8)
        k = self.k(m).view(*m.shape[:-1], 3, -1).transpose(-2, -3)
        v = self.v(m).view(*m.shape[:-1], 3, -1).transpose(-2, -3)
        a = torch.matmul(q, k.transpose(-1, -2))
        for b in (1e9 * (mask - 1)[..., :, None, None, :], self.bias(z)):
            a = a + b
        o = torch.matmul(torch.softmax(a, dim=-1), v).transpose(-2, -3)
        g = torch.sigmoid(self.gate(m)).view(*m.shape[:-1], 3, -1)
        return self.out((o * g).reshape(*m.shape[:-1], -1))

    def bias(self, z: Tensor) -> Tensor:
        """Pairs as a bias of all rows, (batch, 1, heads, residues, residues)."""
        return self.pair(z).permute(0, 3, 1, 2).unsqueeze(-4)


MSA_MASK = torch.ones(2, 4, 5)
MSA_MASK[0, :, 4] = 0


def rows_truth(m: Any, inputs: Any) -> Truth:
    """Rows folded into the batch."""
    x, z, mask = inputs
    q, k, v = (split(f(x.flatten(0, 1)), 3) for f in (m.q, m.k, m.v))
    return attend(
        q, k, v, bias=m.bias(z).expand(2, 4, 3, 5, 5).flatten(0, 1),
        visible=mask.flatten(0, 1)[:, None, None].bool(),
    )  # fmt: skip


def rows_output(m: Any, truth: Truth) -> Tensor:
    """Gate and rows apart again."""
    return m.out(truth.merged.view(2, 4, 5, 24) * torch.sigmoid(m.gate(noise(2, 4, 5, 20))))


class SetBlock(nn.Module):
    """Attention of a set transformer: heads cut out by split, scale by the whole width."""

    def __init__(self) -> None:
        super().__init__()
        self.fc_q, self.fc_k, self.fc_v = nn.Linear(20, 24), nn.Linear(16, 24), nn.Linear(16, 24)
        self.fc_o = nn.Linear(24, 24)

    def forward(self, Q: Tensor, K: Tensor) -> Tensor:
        """Attend from the set Q to the set K."""
        Q = self.fc_q(Q)
        K, V = self.fc_k(K), self.fc_v(K)
        Q_, K_, V_ = (torch.cat(t.split(8, 2), 0) for t in (Q, K, V))
        A = torch.softmax(Q_.bmm(K_.transpose(1, 2)) / math.sqrt(24), 2)
        O = torch.cat((Q_ + A.bmm(V_)).split(Q.size(0), 0), 2)  # noqa: E741
        return O + F.relu(self.fc_o(O))


def set_truth(m: Any, inputs: Any) -> Truth:
    """Scaled by 1/√24."""
    a, b = inputs
    return attend(split(m.fc_q(a), 3), split(m.fc_k(b), 3), split(m.fc_v(b), 3), 24**-0.5)


def set_output(m: Any, truth: Truth) -> Tensor:
    """The query is the residual."""
    assert truth.q is not None
    o = truth.merged + merge(truth.q)
    return o + F.relu(m.fc_o(o))


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


def two_streams() -> tuple[Tensor, Tensor]:
    """Five and seven elements."""
    return noise(2, 5, 20), noise(2, 7, 16, seed=3)


STYLES: tuple[Style, ...] = (
    Style(
        name="fused-odd-splits-gated", build=seeded(OddSplits), kv_heads=1, value_dim=6,
        mask=frozenset({"causal"}), visible=0.6, truth=odd_truth, output=odd_output,
    ),
    Style(
        name="head-modules-stacked", build=seeded(HeadModules), truth=head_modules_truth,
    ),
    Style(
        name="port-keras-letters", build=seeded(KerasPort), inputs=lambda: (noise(2, 5, 20), KEEP),
        mask=frozenset({"padding"}), visible=0.8, truth=keras_truth,
        output=lambda m, t: torch.tensordot(t.read.transpose(1, 2), m.o, 2),
    ),
    Style(
        name="port-flax-exponentials", build=seeded(FlaxPort), mask=frozenset({"causal"}),
        visible=0.6, truth=usual(visible=lower()),
    ),
    Style(
        name="recommender-query-masks", build=seeded(Recommender), inputs=basket, head_dim=6,
        value_dim=6, scale=6**-0.5, mask=frozenset({"causal", "padding"}),
        visible=(6 + 3 + 3 + 15) / 50, after=("mask",), truth=recommender_truth,
        output=lambda _, t: t.merged + basket()[0],
    ),
    Style(
        name="gated-unit-squared-relu", build=seeded(GatedUnit), heads=1, kv_heads=1,
        value_dim=12, scale=1 / 5, normaliser="relu-squared", truth=gated_unit_truth,
        output=gated_unit_output,
    ),
    Style(
        name="alignment-rows-with-pairs", build=seeded(RowsWithPairs), batch=8, bias=True,
        inputs=lambda: (noise(2, 4, 5, 20), noise(2, 5, 5, 6, seed=3), MSA_MASK),
        mask=frozenset({"padding"}), visible=0.9, truth=rows_truth, output=rows_output,
    ),
    Style(
        name="set-block", build=seeded(SetBlock), inputs=two_streams, keys=7, scale=24**-0.5,
        truth=set_truth, output=set_output,
    ),
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
