"""Softmaxes and sums over tokens or experts that are no attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Projections, noise, seeded, split
from .truth import LookAlike, self_tokens


class Experts(nn.Module):
    """A router's softmax, and four experts as two stacked parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(20, 4, bias=False)
        self.w1 = nn.Parameter(torch.randn(4, 20, 12) * 0.2)
        self.w2 = nn.Parameter(torch.randn(4, 12, 20) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        """All experts on all tokens, mixed by einsum."""
        gates = self.router(x).softmax(dim=-1)
        h = F.gelu(torch.einsum("btc,ecf->btef", x, self.w1))
        return torch.einsum("bte,btef,efc->btc", gates, h, self.w2)


class ExpertsMatmulGate(Experts):
    """Gates multiply the stacked outputs of the experts by a matmul: softmax, then product."""

    def forward(self, x: Tensor) -> Tensor:
        """Mix by matmul."""
        gates = torch.matmul(x, self.router.weight.t()).softmax(-1)
        y = torch.einsum("btec,ecf->btef", x[:, :, None].expand(-1, -1, 4, -1), self.w1).relu()
        y = torch.einsum("btef,efc->btec", y, self.w2)
        return torch.matmul(gates.unsqueeze(-2), y).squeeze(-2)


class ExpertsBmm(Experts):
    """Experts as the batch of bmm; all tokens to all experts, weighted and summed."""

    def forward(self, x: Tensor) -> Tensor:
        """Mix by weighted sum."""
        flat = x.reshape(-1, 20)
        gates = F.softmax(self.router(flat), dim=-1, dtype=torch.float32)
        h = torch.bmm(flat.expand(4, -1, -1), self.w1)
        y = torch.bmm(F.silu(h), self.w2)
        return (y * gates.t()[..., None]).sum(0).view_as(x)


class ExpertsTopTwo(Experts):
    """The two best experts a token, renormalised, gathered and added by index_add."""

    def forward(self, x: Tensor) -> Tensor:
        """Route."""
        flat = x.reshape(-1, 20)
        probabilities = self.router(flat).softmax(-1)
        weights, chosen = probabilities.topk(2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for expert in range(4):
            token, slot = torch.where(chosen == expert)
            y = F.gelu(flat[token] @ self.w1[expert]) @ self.w2[expert]
            out.index_add_(0, token, y * weights[token, slot, None])
        return out.view_as(x)


class DispatchCombine(Experts):
    """Capacity dispatch: one-hot tensors gather tokens, gates scatter them back."""

    def forward(self, x: Tensor) -> Tensor:
        """Route with a capacity of four tokens an expert."""
        gates = self.router(x).softmax(-1)
        best, expert = gates.max(-1)
        chosen = F.one_hot(expert, 4).float()
        slot = (chosen.cumsum(1) * chosen - 1).max(-1).values.long()
        keep = (slot < 4)[..., None, None]
        dispatch = chosen[..., None] * F.one_hot(slot.clamp(0, 3), 4).float()[:, :, None] * keep
        inputs = torch.einsum("btes,btc->ebsc", dispatch, x)
        h = torch.einsum("ebsc,ecf->ebsf", inputs, self.w1).relu()
        outputs = torch.einsum("ebsf,efc->ebsc", h, self.w2)
        return torch.einsum("btes,ebsc->btc", dispatch * best[..., None, None], outputs)


class AttentivePooling(nn.Module):
    """Tokens averaged with the softmax of one linear score each."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(20, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Pool x into ``(batch, width)``."""
        weights = self.score(x).softmax(dim=1)
        return torch.bmm(weights.transpose(1, 2), x).squeeze(1)


class AdditivePooling(nn.Module):
    """Additive scores: a vector times tanh of projected query plus projected key."""

    def __init__(self) -> None:
        super().__init__()
        self.w_query, self.w_key = nn.Linear(20, 9), nn.Linear(20, 9)
        self.w_score = nn.Linear(9, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Read keys ``(batch, tokens, width)`` for query ``(batch, width)``."""
        hidden = torch.tanh(self.w_query(query)[:, None] + self.w_key(keys))
        weights = self.w_score(hidden).squeeze(-1).softmax(-1)
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1)


class GraphAdditive(nn.Module):
    """Graph nodes read their neighbours with scores that are sums of two numbers."""

    adjacency: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Linear(20, 8, bias=False)
        self.a_self, self.a_other = nn.Linear(8, 1), nn.Linear(8, 1)
        self.register_buffer("adjacency", torch.eye(5) + torch.eye(5).roll(1, 0))

    def forward(self, x: Tensor) -> Tensor:
        """One layer."""
        h = self.w(x)
        e = F.leaky_relu(self.a_self(h) + self.a_other(h).transpose(1, 2), 0.2)
        e = e.masked_fill(self.adjacency == 0, -9e15)
        return torch.matmul(F.softmax(e, dim=-1), h)


class LinearAttention(Projections):
    """Feature maps elu + 1; keys meet values first."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend without a queries by keys matrix."""
        q, k, v = (split(f(x), self.heads) for f in (self.q, self.k, self.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bhkd,bhkv->bhdv", k, v)
        z = 1 / (torch.einsum("bhqd,bhd->bhq", q, k.sum(dim=2)) + 1e-6)
        out = torch.einsum("bhqd,bhdv,bhq->bhqv", q, kv, z)
        return self.out(out.transpose(1, 2).flatten(2))


class EfficientAttention(Projections):
    """Softmax of queries over features and of keys over tokens, then keys times values."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend in linear time."""
        q, k, v = (split(f(x), self.heads) for f in (self.q, self.k, self.v))
        context = k.softmax(dim=-2).transpose(-1, -2) @ v
        return self.out((q.softmax(dim=-1) @ context).transpose(1, 2).flatten(2))


class Retention(Projections):
    """Products of queries and keys times a decay, straight into the values."""

    def forward(self, x: Tensor) -> Tensor:
        """Retain within x."""
        q, k, v = (split(f(x), self.heads) for f in (self.q, self.k, self.v))
        distance = torch.arange(5)[:, None] - torch.arange(5)[None]
        decay = torch.where(distance >= 0, 0.9 ** distance.clamp(min=0).float(), 0.0)
        retained = (q @ k.transpose(-1, -2) * 8**-0.5 * decay) @ v
        return self.out(F.layer_norm(retained, (8,)).transpose(1, 2).flatten(2))


class SelectiveScan(nn.Module):
    """A state-space recurrence with steps and matrices made from the data."""

    def __init__(self) -> None:
        super().__init__()
        self.x_proj = nn.Linear(20, 4 + 4 + 1)
        self.A_log = nn.Parameter(torch.rand(20, 4))
        self.D = nn.Parameter(torch.ones(20))

    def forward(self, u: Tensor) -> Tensor:
        """Scan u ``(batch, tokens, width)``."""
        B, C, delta = self.x_proj(u).split([4, 4, 1], dim=-1)
        delta = F.softplus(delta)
        A = torch.exp(torch.einsum("blx,dn->bldn", delta, -self.A_log.exp()))
        BX = torch.einsum("blx,bln,bld->bldn", delta, B, u)
        h, ys = u.new_zeros(u.shape[0], 20, 4), []
        for t in range(u.shape[1]):
            h = A[:, t] * h + BX[:, t]
            ys.append(torch.einsum("bdn,bn->bd", h, C[:, t]))
        return torch.stack(ys, dim=1) + u * self.D


class ChannelGate(nn.Module):
    """Squeeze and excite: two products and a sigmoid scale the channels."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(20, 5))
        self.w2 = nn.Parameter(torch.randn(5, 20))

    def forward(self, x: Tensor) -> Tensor:
        """Gate the channels of x."""
        s = torch.matmul(x.mean(dim=1), self.w1).relu()
        return x * torch.sigmoid(torch.matmul(s, self.w2)).unsqueeze(1)


class DynamicKernel(nn.Module):
    """A convolution whose kernel is a softmax over taps, made from each token alone."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Linear(20, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve x along the tokens."""
        taps = self.kernel(x).softmax(dim=-1)
        windows = F.pad(x, (0, 0, 2, 0)).unfold(1, 3, 1)
        return torch.matmul(windows, taps.unsqueeze(-1)).squeeze(-1)


class TokenMixer(nn.Module):
    """Tokens are mixed by a learned matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.randn(5, 9))
        self.back = nn.Parameter(torch.randn(9, 5))

    def forward(self, x: Tensor) -> Tensor:
        """Mix along the tokens."""
        h = torch.einsum("btc,tm->bmc", x, self.mix)
        return x + torch.einsum("bmc,mt->btc", F.gelu(h), self.back)


class HyperNetwork(nn.Module):
    """A weight made from the data meets the data: product of two streams, no normaliser."""

    def __init__(self) -> None:
        super().__init__()
        self.make = nn.Linear(20, 20 * 6)
        self.back = nn.Parameter(torch.randn(6, 20))

    def forward(self, x: Tensor) -> Tensor:
        """Project each sample by its own matrix."""
        weight = self.make(x.mean(1)).view(-1, 20, 6)
        return torch.bmm(x, weight).relu() @ self.back


def alike(name: str, make: type[nn.Module], why: str, expect: str) -> LookAlike:
    """A look-alike over tokens."""
    return LookAlike(name=name, build=seeded(make), inputs=self_tokens, why=why, expect=expect)


GATES = "the softmax runs over experts and comes from a linear layer"
POOLED = "scores come from one linear layer, no product of two streams"
ORDER = "no row of scores is normalised over the keys"

LOOKALIKES: tuple[LookAlike, ...] = (
    alike("router-einsum", Experts, GATES, "router"),
    alike("router-matmul-gate", ExpertsMatmulGate, GATES, "router"),
    alike("router-bmm", ExpertsBmm, GATES, "router"),
    alike("router-top-two-index-add", ExpertsTopTwo, GATES, "router"),
    alike("router-dispatch-combine", DispatchCombine, GATES, "router"),
    alike("pooling-linear-scores", AttentivePooling, POOLED, "pooling"),
    LookAlike(
        name="pooling-additive-scores",
        build=seeded(AdditivePooling),
        inputs=lambda: (noise(2, 20), noise(2, 7, 20, seed=3)),
        why="query and key are added, not multiplied",
        expect="additive",
    ),
    alike("graph-additive-scores", GraphAdditive, "scores are sums, not products", "additive"),
    alike("linear-elu", LinearAttention, ORDER, "linear-attention"),
    alike("linear-two-softmaxes", EfficientAttention, ORDER, "linear-attention"),
    alike("retention", Retention, "no normaliser between the products", "linear-attention"),
    alike("selective-scan", SelectiveScan, "a recurrence over tokens", "linear-attention"),
    alike("channel-gate", ChannelGate, "a gate a channel, and no softmax", "nothing"),
    alike("dynamic-kernel", DynamicKernel, POOLED, "pooling"),
    alike("token-mixer", TokenMixer, "both products have a parameter as a factor", "nothing"),
    alike("hyper-network", HyperNetwork, "no normaliser between the products", "nothing"),
)
