"""Linear-attention LM (elu + 1 feature map) with cumulative sums and normaliser."""
import torch
from torch import nn
import torch.nn.functional as F


class LinearAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.h, d // self.h).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2)
        num = torch.einsum("bhtd,bhtde->bhte", q, kv)
        den = torch.einsum("bhtd,bhtd->bht", q, k.cumsum(2)).clamp_min(1e-6)
        return self.o((num / den[..., None]).transpose(1, 2).reshape(b, t, d))


class LinearLM(nn.Module):
    def __init__(self, vocab=85, d=40, h=4, n=2):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.l = nn.ModuleList(LinearAttention(d, h) for _ in range(n))
        self.n = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.e(ids) + self.p.weight[: ids.shape[1]]
        for n, l in zip(self.n, self.l):
            x = x + l(n(x))
        return self.head(x)


torch.manual_seed(13)
model = LinearLM().eval()
inputs = (torch.randint(0, 85, (2, 12), generator=torch.Generator().manual_seed(13)),)
expect = {"causal": True}
