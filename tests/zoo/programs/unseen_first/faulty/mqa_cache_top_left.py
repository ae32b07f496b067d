"""Multi-query attention that keeps its cache in the module, for a streaming decoder."""
import torch
import torch.nn.functional as F
from torch import nn


class StreamingMQA(nn.Module):
    def __init__(self, dim=40, heads=5):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * self.hd, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.freq = 100.0 ** -(torch.arange(0, self.hd, 2) / self.hd)
        self.reset()

    def reset(self):
        self.past_k = self.past_v = None

    def rotate(self, x, start):
        a = (torch.arange(x.shape[-2]) + start)[:, None] * self.freq
        l, r = x.chunk(2, -1)
        return torch.cat((l * a.cos() - r * a.sin(), r * a.cos() + l * a.sin()), -1)

    def forward(self, x):
        b, n, _ = x.shape
        start = 0 if self.past_k is None else self.past_k.shape[2]
        q = self.rotate(self.q(x).view(b, n, self.heads, self.hd).transpose(1, 2), start)
        k, v = self.kv(x).unsqueeze(1).chunk(2, dim=-1)
        k = self.rotate(k, start)
        if start:
            k, v = torch.cat((self.past_k, k), 2), torch.cat((self.past_v, v), 2)
        self.past_k, self.past_v = k, v
        keep = torch.arange(k.shape[2]) <= torch.arange(n)[:, None]  # fault: AS206
        k, v = (t.expand(-1, self.heads, -1, -1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, keep)
        return self.o(y.transpose(1, 2).flatten(2))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(33)
        return StreamingMQA().eval()


inputs = {"x": torch.randn(2, 9, 40, generator=torch.Generator().manual_seed(7))}
# also: AS601
expect = {"causal": True, "cache": "self"}
