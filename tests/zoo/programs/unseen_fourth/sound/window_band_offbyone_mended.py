"""Local attention for genomes: each base sees itself and the seven before it."""
import torch
import torch.nn as nn
import torch.nn.functional as F

WINDOW = 8


class LocalBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.ln = h, nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.ln(x)).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        i = torch.arange(n)
        dist = i[:, None] - i[None, :]
        band = (dist >= 0) & (dist < WINDOW)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=band)
        return x + self.o(y.transpose(1, 2).reshape(b, n, d))


class Genome(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.base, self.pos = nn.Embedding(6, d), nn.Embedding(64, d)
        self.blocks = nn.Sequential(LocalBlock(d, 4), LocalBlock(d, 4))
        self.out = nn.Linear(d, 6)

    def forward(self, seq):
        return self.out(self.blocks(self.base(seq) + self.pos.weight[:seq.size(1)]))


torch.manual_seed(8)
model = Genome().eval()
inputs = torch.randint(0, 6, (2, 30), generator=torch.Generator().manual_seed(8))
expect = {"window": WINDOW, "causal": True}
