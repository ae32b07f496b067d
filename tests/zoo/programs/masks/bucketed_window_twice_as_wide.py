"""Local attention in buckets: a query sees its own bucket and the one before, no further than `window`."""

import torch
import torch.nn.functional as F
from torch import nn


class LocalCausal(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        w = self.window
        q, k, v = (t.view(b, n // w, w, self.heads, -1).transpose(2, 3) for t in self.to_qkv(x).chunk(3, -1))
        look_back = lambda t: torch.cat([F.pad(t, (0, 0, 0, 0, 0, 0, 1, 0))[:, :-1], t], dim=3)
        k, v = look_back(k), look_back(v)
        sim = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        q_pos = torch.arange(n).view(n // w, w, 1)
        k_pos = torch.cat([q_pos - w, q_pos], dim=1).transpose(1, 2)
        drop = (k_pos > q_pos) | (k_pos < 0)  # fault: AS210
        sim = sim.masked_fill(drop[None, :, None], -torch.finfo(sim.dtype).max)
        out = sim.softmax(-1) @ v
        return self.to_out(out.transpose(2, 3).reshape(b, n, d))


class LocalLM(nn.Module):
    def __init__(self, vocab=39, dim=32, heads=4, window=4):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(32, dim)
        self.norm = nn.LayerNorm(dim)
        self.local = LocalCausal(dim, heads, window)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        return self.out(x + self.local(self.norm(x)))


with torch.random.fork_rng():
    torch.manual_seed(54)
    model = LocalLM().eval()

inputs = (torch.randint(0, 39, (3, 20), generator=torch.Generator().manual_seed(54)),)
expect = {"causal": True, "window": 4}
