"""Attention without a matrix of queries by keys, or without products: it has to be named at least.

Beside them, more code that is no attention.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import Projections, merge, noise, seeded, split
from .truth import Inputs, LookAlike, self_tokens

SOURCE = torch.tensor([0, 1, 2, 3, 4, 0, 2, 4, 1])
TARGET = torch.tensor([0, 1, 2, 3, 4, 1, 1, 0, 3])


class Edges(Projections):
    """Messages along the edges of a graph; softmax by scatter over the edges of a node."""

    def forward(self, x: Tensor) -> Tensor:
        """One layer over nodes ``(nodes, width)``."""
        q, k, v = (f(x).view(-1, 3, 8) for f in (self.q, self.k, self.v))
        alpha = (q[TARGET] * k[SOURCE]).sum(dim=-1) / math.sqrt(8)
        alpha = (alpha - alpha.max()).exp()
        total = torch.zeros(5, 3).index_add(0, TARGET, alpha)
        alpha = alpha / (total[TARGET] + 1e-16)
        out = torch.zeros(5, 3, 8).index_add(0, TARGET, v[SOURCE] * alpha.unsqueeze(-1))
        return self.out(out.flatten(1))


class SparseMatrix(Projections):
    """Scores as a sparse matrix, torch.sparse.softmax, torch.sparse.mm."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x ``(tokens, width)``."""
        q, k, v = self.q(x), self.k(x), self.v(x)
        keep = torch.ones(5, 5).tril().to_sparse()
        scores = (q @ k.T / 24**0.5).sparse_mask(keep.coalesce())
        return self.out(torch.sparse.mm(torch.sparse.softmax(scores, dim=1), v))


class DotByDot(Projections):
    """A student's four nested loops: one dot product after the other."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x ``(tokens, width)``."""
        q, k, v = self.q(x), self.k(x), self.v(x)
        outputs = []
        for i in range(len(x)):
            scores = torch.stack([torch.dot(q[i], k[j]) for j in range(len(x))])
            weights = torch.softmax(scores / math.sqrt(24), dim=0)
            context = torch.zeros(24)
            for j in range(len(x)):
                context = context + weights[j] * v[j]
            outputs.append(context)
        return self.out(torch.stack(outputs))


class VectorAttention(Projections):
    """Points: a softmax for every feature, from a network on differences."""

    def __init__(self) -> None:
        super().__init__()
        self.delta, self.gamma = nn.Linear(3, 24), nn.Sequential(nn.Linear(24, 24), nn.ReLU())

    def forward(self, x: Tensor, points: Tensor) -> Tensor:
        """Attend among points ``(batch, points, 3)`` with features x."""
        q, k, v = self.q(x), self.k(x), self.v(x)
        pos = self.delta(points[:, :, None] - points[:, None])
        attn = self.gamma(q[:, :, None] - k[:, None] + pos)
        attn = F.softmax(attn / math.sqrt(24), dim=-2)
        return self.out(torch.einsum("bmnf,bmnf->bmf", attn, v[:, None] + pos))


class Bahdanau(nn.Module):
    """A translator's additive score, query and keys through tanh."""

    def __init__(self) -> None:
        super().__init__()
        self.Wa, self.Ua, self.Va = nn.Linear(20, 12), nn.Linear(20, 12), nn.Linear(12, 1)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Read keys for query ``(batch, 1, width)``."""
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        return torch.bmm(F.softmax(scores, dim=-1), keys)


class BilinearLayer(nn.Module):
    """nn.Bilinear over all pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Bilinear(20, 20, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x."""
        b, n, c = x.shape
        left = x[:, :, None].expand(b, n, n, c).contiguous()
        right = x[:, None].expand(b, n, n, c).contiguous()
        return self.score(left, right).squeeze(-1).softmax(dim=-1) @ x


class Nystrom(Projections):
    """Three kernels with landmarks, the middle one inverted by iteration."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend within x ``(batch, 6, width)``."""
        q, k, v = (split(f(x), 3) * 8**-0.25 for f in (self.q, self.k, self.v))
        ql, kl = (t.reshape(2, 3, 3, 2, 8).mean(dim=-2) for t in (q, k))
        kernel_1 = F.softmax(torch.matmul(q, kl.transpose(-1, -2)), dim=-1)
        kernel_2 = F.softmax(torch.matmul(ql, kl.transpose(-1, -2)), dim=-1)
        kernel_3 = F.softmax(torch.matmul(ql, k.transpose(-1, -2)), dim=-1)
        eye = torch.eye(3)
        z = kernel_2.transpose(-1, -2) / kernel_2.sum(dim=-2).max()
        for _ in range(6):
            kz = torch.matmul(kernel_2, z)
            z = 0.25 * torch.matmul(
                z, 13 * eye - torch.matmul(kz, 15 * eye - torch.matmul(kz, 7 * eye - kz))
            )
        return self.out(merge(torch.matmul(torch.matmul(kernel_1, z), torch.matmul(kernel_3, v))))


class RandomFeatures(Projections):
    """Positive random features in place of the softmax."""

    projection: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("projection", noise(8, 11, seed=6))

    def features(self, t: Tensor) -> Tensor:
        """Exponentials of random projections."""
        t = t * 8**-0.25
        return torch.exp(t @ self.projection - t.square().sum(-1, keepdim=True) / 2) + 1e-4

    def forward(self, x: Tensor) -> Tensor:
        """Attend in linear time."""
        q, k, v = (split(f(x), 3) for f in (self.q, self.k, self.v))
        q, k = self.features(q), self.features(k)
        d_inv = 1.0 / torch.einsum("...nd,...d->...n", q, k.sum(dim=-2))
        context = torch.einsum("...nd,...ne->...de", k, v)
        return self.out(merge(torch.einsum("...de,...nd,...n->...ne", context, q, d_inv)))


class ActivationUnit(nn.Module):
    """A recommender's target attention: a network on the pair, no softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(80, 12), nn.Sigmoid(), nn.Linear(12, 1))

    def forward(self, target: Tensor, history: Tensor) -> Tensor:
        """Sum history ``(batch, tokens, width)`` weighted for target ``(batch, width)``."""
        q = target.unsqueeze(1).expand_as(history)
        pairs = torch.cat((q, history, q - history, q * history), dim=-1)
        return torch.matmul(self.mlp(pairs).transpose(1, 2), history).squeeze(1)


class MixtureOfSoftmaxes(nn.Module):
    """A language model's output as a mixture of three softmaxes."""

    def __init__(self) -> None:
        super().__init__()
        self.prior, self.latent = nn.Linear(20, 3), nn.Linear(20, 60)
        self.decoder = nn.Linear(20, 17)

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities ``(batch, tokens, 17)``."""
        prior = F.softmax(self.prior(x), dim=-1)
        logits = self.decoder(torch.tanh(self.latent(x)).unflatten(-1, (3, 20)))
        return (F.softmax(logits, dim=-1) * prior.unsqueeze(-1)).sum(-2).log()


class Capsules(nn.Module):
    """Routing by agreement: logits grow by products of votes and outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(5, 4, 20, 6) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Route five capsules to four."""
        votes = torch.einsum("bic,ijcd->bijd", x, self.W)
        logits = torch.zeros(x.shape[0], 5, 4)
        v = votes.sum(1)
        for _ in range(3):
            c = logits.softmax(dim=2)
            v = torch.tanh((c.unsqueeze(-1) * votes).sum(dim=1))
            logits = logits + (votes * v.unsqueeze(1)).sum(-1)
        return v


class SpatialTransformerGate(nn.Module):
    """Channel and spatial gates, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.w0, self.w1, self.conv = nn.Linear(20, 5), nn.Linear(5, 20), nn.Conv2d(2, 1, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Refine a map ``(batch, channels, height, width)``."""
        pooled = [self.w1(self.w0(t).relu()) for t in (x.mean((2, 3)), x.amax((2, 3)))]
        x = x * torch.sigmoid(pooled[0] + pooled[1])[:, :, None, None]
        both = torch.cat((x.mean(1, keepdim=True), x.amax(1, keepdim=True)), 1)
        return x * torch.sigmoid(self.conv(both))


class Transitions(nn.Module):
    """A conditional random field's forward pass: log-sum-exps over transitions."""

    def __init__(self) -> None:
        super().__init__()
        self.emit = nn.Linear(20, 4)
        self.transitions = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        """The log of the partition function, per sample."""
        emissions = self.emit(x)
        alpha = emissions[:, 0]
        for t in range(1, x.shape[1]):
            scores = alpha.unsqueeze(2) + self.transitions + emissions[:, t].unsqueeze(1)
            alpha = torch.logsumexp(scores, dim=1)
        return alpha.logsumexp(-1)


class SoftArgmax(nn.Module):
    """Expected coordinates under a softmax of a map: heads for keypoints."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(20, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Coordinates of three keypoints."""
        heat = self.conv(x).flatten(2).softmax(-1)
        ys, xs = torch.meshgrid(torch.arange(4.0), torch.arange(6.0), indexing="ij")
        return torch.stack(((heat * xs.flatten()).sum(-1), (heat * ys.flatten()).sum(-1)), -1)


class CostVolume(nn.Module):
    """Optical flow: all pairs of two maps, sampled, no softmax over pairs."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Correlations of maps ``(batch, channels, height, width)``, best match by softmax."""
        volume = torch.einsum("bchw,bcuv->bhwuv", a, b).flatten(3) / 20**0.5
        matches = volume.softmax(-1)
        grid = torch.stack(torch.meshgrid(torch.arange(4.0), torch.arange(6.0), indexing="ij"), -1)
        return torch.einsum("bhwk,kc->bhwc", matches, grid.flatten(0, 1))


def nodes() -> Inputs:
    """Five nodes, no batch."""
    return (noise(5, 20),)


def a_map() -> Inputs:
    """A feature map."""
    return (noise(2, 20, 4, 6),)


def alike(
    name: str, make: type[nn.Module], why: str, expect: str = "named", inputs: object = self_tokens
) -> LookAlike:
    """A look-alike made from a class without arguments."""
    assert callable(inputs)
    return LookAlike(name=name, build=seeded(make), inputs=inputs, why=why, expect=expect)


LOOKALIKES: tuple[LookAlike, ...] = (
    alike("edges-scatter", Edges, "queries meet keys along edges only", inputs=nodes),
    alike("sparse-matrix", SparseMatrix, "scores are a sparse tensor", inputs=nodes),
    alike("dot-by-dot", DotByDot, "products are single numbers", inputs=nodes),
    alike("vector-attention", VectorAttention, "a softmax a feature",
          inputs=lambda: (noise(2, 5, 20), noise(2, 5, 3, seed=3))),
    alike("additive-translator", Bahdanau, "query and keys are added", "additive",
          lambda: (noise(2, 1, 20), noise(2, 7, 20, seed=3))),
    alike("bilinear-layer", BilinearLayer, "a layer makes the scores"),
    alike("landmarks", Nystrom, "a product of three kernels", inputs=lambda: (noise(2, 6, 20),)),
    alike("random-features", RandomFeatures, "no queries by keys matrix", "linear-attention"),
    alike("activation-unit", ActivationUnit, "weights come from a network", "nothing",
          lambda: (noise(2, 20), noise(2, 7, 20, seed=3))),
    alike("mixture-of-softmaxes", MixtureOfSoftmaxes, "probabilities of words", "router"),
    alike("capsules", Capsules, "agreement of votes, not of queries and keys", "named"),
    alike("channel-and-spatial-gates", SpatialTransformerGate, "gates", "nothing", a_map),
    alike("transitions", Transitions, "log-sum-exps of a chain", "nothing"),
    alike("soft-argmax", SoftArgmax, "an expectation of coordinates", "pooling", a_map),
    alike("cost-volume", CostVolume, "values are coordinates: matching is attention, or named",
          "named", lambda: (noise(2, 20, 4, 6), noise(2, 20, 4, 6, seed=3))),
)  # fmt: skip
