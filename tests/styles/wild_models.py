"""Attention as whole models write it: ports, recommenders, proteins, sets."""

# mypy: disable-error-code=no-untyped-call
# torch leaves Tensor.split and Tensor.unflatten without types.

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Projections, lower, merge, noise, seeded, split, usual
from .truth import Style, Truth, attend


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
    return attend(q[:, None], k[:, None], v[:, None], 1 / 5, normalise=lambda s: s.relu().square())


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
)  # fmt: skip
