"""YOCO-like decoder: keys serve as values too, and the upper layers reuse the keys of the lower one."""

import torch
import torch.nn.functional as F
from torch import nn


class SharedKV(nn.Module):
    """One projection gives keys and values at once."""

    def __init__(self, dim, head_dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.proj = nn.Linear(dim, head_dim, bias=False)

    def forward(self, x):
        return self.proj(self.norm(x)).unsqueeze(1)


class Reader(nn.Module):
    def __init__(self, dim, heads, head_dim):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, heads * head_dim, bias=False)
        self.out = nn.Linear(heads * head_dim, dim, bias=False)

    def forward(self, x, kv):
        b, t, _ = x.shape
        q = self.q(self.norm(x)).view(b, t, self.heads, -1).transpose(1, 2)
        kv = kv.expand(-1, self.heads, -1, -1)
        y = F.scaled_dot_product_attention(q, kv, kv, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class CrossLayerDecoder(nn.Module):
    def __init__(self, vocab=45, dim=36, heads=5, head_dim=12, depth=3):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(32, dim)
        self.kv = SharedKV(dim, head_dim)
        self.readers = nn.ModuleList(Reader(dim, heads, head_dim) for _ in range(depth))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 70), nn.GELU(), nn.Linear(70, dim)) for _ in range(depth)
        )
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1], device=ids.device))
        kv = self.kv(x)
        for reader, mlp in zip(self.readers, self.mlps):
            x = reader(x, kv)
            x = x + mlp(x)
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(35)
    model = CrossLayerDecoder().eval()

inputs = torch.randint(0, 45, (2, 13), generator=torch.Generator().manual_seed(36))
expect = {"causal": True}
