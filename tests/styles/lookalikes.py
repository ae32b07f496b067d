"""Two contractions that are no attention: feed-forward nets, adapters, classifiers, algebra."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .projections import noise, seeded
from .routers import LOOKALIKES as ROUTERS
from .truth import Inputs, LookAlike, self_tokens


class FeedForward(nn.Module):
    """Two parameters and a GELU; the activation of the second product is not a normaliser."""

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(20, 32) * 0.2)
        self.w2 = nn.Parameter(torch.randn(32, 20) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        """Expand and contract."""
        return torch.matmul(F.gelu(torch.matmul(x, self.w1)), self.w2)


class GatedFeedForward(FeedForward):
    """A sigmoid gate between parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.w3 = nn.Parameter(torch.randn(20, 32) * 0.2)

    def forward(self, x: Tensor) -> Tensor:
        """Gate times value."""
        return ((x @ self.w1).sigmoid() * (x @ self.w3)) @ self.w2


class CastFeedForward(FeedForward):
    """The weights are cast at every call, so they are new tensors each time."""

    def forward(self, x: Tensor) -> Tensor:
        """Compute in bfloat16."""
        x = x.bfloat16()
        h = torch.relu(x @ self.w1.to(x.dtype)) ** 2
        return (h @ self.w2.to(x.dtype)).float()


class SoftmaxFeedForward(FeedForward):
    """A softmax as the activation of a hidden layer; both factors are parameters."""

    def forward(self, x: Tensor) -> Tensor:
        """Mix the rows of the second parameter."""
        return (x @ self.w1).softmax(-1) @ self.w2


class MergedAdapter(nn.Module):
    """A low-rank adapter, merged into the weight before use: parameter times parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(20, 20)
        self.A = nn.Parameter(torch.randn(20, 4))
        self.B = nn.Parameter(torch.randn(4, 20))

    def forward(self, x: Tensor) -> Tensor:
        """Use the merged weight."""
        weight = self.base.weight + 0.5 * (self.A @ self.B)
        return x @ weight.T + self.base.bias


class SideAdapter(MergedAdapter):
    """The same beside the layer: two products in a row."""

    def forward(self, x: Tensor) -> Tensor:
        """Add the adapter's output."""
        return self.base(x) + 0.5 * (F.dropout(x, 0.1, self.training) @ self.A @ self.B)


class Contrastive(nn.Module):
    """All pairs of a batch against each other, into a cross entropy."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(20, 8)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Loss of two views ``(batch, 20)``."""
        z = F.normalize(self.head(torch.cat((a, b))), dim=-1)
        sim = z @ z.T / 0.1
        sim.fill_diagonal_(-1e9)
        n = len(a)
        labels = torch.cat((torch.arange(n, 2 * n), torch.arange(n)))
        return F.cross_entropy(sim, labels)


class ContrastiveSoftmax(Contrastive):
    """The same by softmax, and the diagonal's mean."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Loss of two views."""
        za, zb = self.head(a), self.head(b)
        return -torch.softmax(za @ zb.t(), dim=-1).diagonal().log().mean()


class PairLogits(nn.Module):
    """Images against texts: cosine times a learned scale, returned both ways round."""

    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(20, 8), nn.Linear(16, 8)
        self.logit_scale = nn.Parameter(torch.tensor(2.6593))

    def forward(self, images: Tensor, texts: Tensor) -> Tensor:
        """Logits per image, as probabilities."""
        i = F.normalize(self.image(images), dim=-1)
        t = F.normalize(self.text(texts), dim=-1)
        return (self.logit_scale.exp() * i @ t.t()).softmax(dim=-1)


class GramLoss(nn.Module):
    """Differences of Gram matrices of feature maps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)

    def gram(self, x: Tensor) -> Tensor:
        """Channel by channel products."""
        f = self.conv(x).flatten(2)
        return torch.bmm(f, f.transpose(1, 2)) / f.shape[-1]

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Squared difference."""
        return (self.gram(x) - self.gram(y)).pow(2).mean()


class Whitening(nn.Module):
    """Features times the inverse root of their own covariance."""

    def forward(self, x: Tensor) -> Tensor:
        """Whiten x ``(samples, features)``."""
        x = x - x.mean(0)
        values, vectors = torch.linalg.eigh(x.T @ x / len(x) + 0.1 * torch.eye(x.shape[1]))
        return x @ (vectors * values.rsqrt()) @ vectors.T


class NewtonSchulz(nn.Module):
    """A matrix made orthogonal by iterated products with itself."""

    def forward(self, g: Tensor) -> Tensor:
        """Orthogonalise g ``(rows, columns)``."""
        x = g / (g.norm() + 1e-7)
        for _ in range(5):
            a = x @ x.mT
            b = -4.7750 * a + 2.0315 * a @ a
            x = 3.4445 * x + b @ x
        return x


class Bilinear(nn.Module):
    """Every pair of tokens scored by a matrix for an arc; scores are the result."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.dependent = nn.Linear(20, 8), nn.Linear(20, 8)
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        """Log-probabilities of heads, (batch, tokens, tokens)."""
        h, d = F.relu(self.head(x)), F.relu(self.dependent(x))
        return (d @ self.weight @ h.transpose(1, 2)).log_softmax(-1)


class TiedClassifier(nn.Module):
    """Hidden states times the transposed embedding, softmax over the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 20)
        self.mix = nn.Linear(20, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        """Probabilities of the next token."""
        return torch.matmul(self.mix(self.embedding(tokens)), self.embedding.weight.T).softmax(-1)


class GraphConvolution(nn.Module):
    """A fixed adjacency, normalised by degrees, times features times weights; twice."""

    adjacency: Tensor

    def __init__(self) -> None:
        super().__init__()
        adjacency = (noise(5, 5, seed=9) > 0).float() + torch.eye(5)
        adjacency = ((adjacency + adjacency.T) > 0).float()
        root = adjacency.sum(-1).rsqrt()
        self.register_buffer("adjacency", root[:, None] * adjacency * root)
        self.w1 = nn.Parameter(torch.randn(20, 12))
        self.w2 = nn.Parameter(torch.randn(12, 6))

    def forward(self, x: Tensor) -> Tensor:
        """Two layers over nodes ``(batch, nodes, features)``."""
        return self.adjacency @ F.relu(self.adjacency @ (x @ self.w1)) @ self.w2


class AdaptiveGraph(GraphConvolution):
    """An adjacency that is the softmax of a product of parameters: the same for every input."""

    def __init__(self) -> None:
        super().__init__()
        self.nodevec1 = nn.Parameter(torch.randn(5, 7))
        self.nodevec2 = nn.Parameter(torch.randn(7, 5))

    def forward(self, x: Tensor) -> Tensor:
        """One layer."""
        adjacency = F.softmax(F.relu(torch.mm(self.nodevec1, self.nodevec2)), dim=1)
        return torch.einsum("vw,bwc->bvc", adjacency, x) @ self.w1


class Codebook(nn.Module):
    """The nearest code by squared distance, written with a product; a one-hot times the codes."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(11, 20))

    def forward(self, z: Tensor) -> Tensor:
        """Quantise z."""
        flat = z.reshape(-1, 20)
        distance = flat.pow(2).sum(1, keepdim=True) + self.codes.pow(2).sum(1)
        distance = distance - 2 * torch.matmul(flat, self.codes.t())
        one_hot = F.one_hot(distance.argmin(1), 11).float()
        return z + (torch.matmul(one_hot, self.codes).view_as(z) - z).detach()


def two_vectors(first: int = 20, second: int = 20) -> Callable[[], Inputs]:
    """Two batches of four vectors."""
    return lambda: (noise(4, first), noise(4, second, seed=3))


def alike(
    name: str,
    make: type[nn.Module],
    why: str,
    expect: str = "nothing",
    inputs: Callable[[], Inputs] = self_tokens,
) -> LookAlike:
    """Shorthand for a look-alike made from a class without arguments."""
    return LookAlike(name=name, build=seeded(make), inputs=inputs, why=why, expect=expect)


PARAMETERS = "both products have a parameter as a factor"

LOOKALIKES: tuple[LookAlike, ...] = (
    alike("feed-forward", FeedForward, PARAMETERS),
    alike("feed-forward-gated", GatedFeedForward, PARAMETERS),
    alike("feed-forward-cast-weights", CastFeedForward, PARAMETERS + ", cast just before"),
    alike("feed-forward-softmax", SoftmaxFeedForward, PARAMETERS, "pooling"),
    alike("adapter-merged", MergedAdapter, "a parameter product is a weight, no scores"),
    alike("adapter-beside", SideAdapter, PARAMETERS),
    alike("loss-contrastive", Contrastive, "pairs of samples end in a loss", "nothing",
          two_vectors()),
    alike("loss-contrastive-softmax", ContrastiveSoftmax, "no values follow the softmax",
          "similarity", two_vectors()),
    alike("pair-logits", PairLogits, "the probabilities are the result", "similarity",
          two_vectors(20, 16)),
    alike("loss-gram", GramLoss, "no normaliser, no values", "nothing",
          lambda: (noise(2, 3, 7, 8), noise(2, 3, 7, 8, seed=3))),
    alike("whitening", Whitening, "covariance, not scores", "nothing", lambda: (noise(11, 6),)),
    alike("orthogonalise", NewtonSchulz, "a matrix polynomial", "nothing",
          lambda: (noise(6, 9),)),
    alike("bilinear-arcs", Bilinear, "no values follow the scores", "similarity"),
    alike("classifier-tied", TiedClassifier, "softmax over a vocabulary", "classifier",
          lambda: (torch.tensor([[1, 4, 2, 16, 7], [3, 3, 0, 9, 12]]),)),
    alike("graph-fixed", GraphConvolution, "the adjacency is a constant"),
    alike("graph-adaptive", AdaptiveGraph, "the adjacency does not depend on the input", "pooling"),
    alike("codebook-nearest", Codebook, "an argmin lies between the products"),
    *ROUTERS,
)  # fmt: skip
