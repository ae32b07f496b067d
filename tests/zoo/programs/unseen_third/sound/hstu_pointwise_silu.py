"""HSTU-like recommender: pointwise SiLU instead of a softmax, divided by the maximum length, gated; causal with a time bias."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class HSTU(nn.Module):
    def __init__(self, d=32, h=4, buckets=32, max_len=50):
        super().__init__()
        self.h, self.max_len = h, max_len
        self.norm, self.uvqk = nn.LayerNorm(d), nn.Linear(d, 4 * d, bias=False)
        self.bias = nn.Parameter(torch.randn(buckets) * 0.1)
        self.post, self.o = nn.LayerNorm(d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        u, v, q, k = F.silu(self.uvqk(self.norm(x))).chunk(4, -1)
        heads = lambda t: t.view(b, n, self.h, -1).transpose(1, 2)
        i = torch.arange(n)
        a = heads(q) @ heads(k).mT + self.bias[(i[:, None] - i[None]).clamp(min=0)]
        a = F.silu(a) / self.max_len * torch.ones(n, n).tril()
        y = (a @ heads(v)).transpose(1, 2).reshape(b, n, d)
        return x + self.o(u * self.post(y))


class SeqRec(nn.Module):
    def __init__(self, items=60, d=32):
        super().__init__()
        self.e, self.layers = nn.Embedding(items, d), nn.Sequential(HSTU(d), HSTU(d))

    def forward(self, seq):
        return self.layers(self.e(seq)) @ self.e.weight.T


with torch.random.fork_rng():
    torch.manual_seed(19)
    model = SeqRec().eval()
inputs = (torch.randint(0, 60, (2, 14), generator=torch.Generator().manual_seed(19)),)
expect = {"causal": True}
