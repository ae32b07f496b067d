"""Encoder with sparsemax in place of softmax: many weights are exactly zero."""

import torch
import torch.nn as nn


def sparsemax(z, dim=-1):
    z = z - z.amax(dim=dim, keepdim=True)
    z_sorted = z.sort(dim=dim, descending=True).values
    k = torch.arange(1, z.size(dim) + 1, device=z.device, dtype=z.dtype)
    cumsum = z_sorted.cumsum(dim)
    support = 1 + k * z_sorted > cumsum
    k_z = support.sum(dim=dim, keepdim=True)
    tau = (cumsum.gather(dim, k_z - 1) - 1) / k_z
    return torch.clamp(z - tau, min=0)


class SparseAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dk = heads, dim // heads
        self.linears = nn.ModuleList(nn.Linear(dim, dim) for _ in range(4))

    def forward(self, query, key, value, mask):
        b = query.size(0)
        q, k, v = [
            lin(x).view(b, -1, self.heads, self.dk).transpose(1, 2)
            for lin, x in zip(self.linears, (query, key, value))
        ]
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.dk**0.5
        scores = scores.masked_fill(mask[:, None, None, :] == 0, -1e4)
        x = torch.matmul(sparsemax(scores, dim=-1), v)
        return self.linears[3](x.transpose(1, 2).contiguous().view(b, -1, self.heads * self.dk))


class SparseEncoder(nn.Module):
    def __init__(self, vocab=54, dim=36, heads=3, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(30, dim)
        self.attn = nn.ModuleList(SparseAttention(dim, heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.tagger = nn.Linear(dim, 12)

    def forward(self, words, mask):
        x = self.tok(words) + self.pos.weight[: words.size(1)]
        for attn, norm in zip(self.attn, self.norm):
            y = norm(x)
            x = x + attn(y, y, y, mask)
        return self.tagger(x)


with torch.random.fork_rng():
    torch.manual_seed(106)
    model = SparseEncoder().eval()

inputs = {
    "words": torch.randint(1, 54, (3, 14), generator=torch.Generator().manual_seed(107)),
    "mask": (torch.arange(14)[None] < torch.tensor([14, 9, 11])[:, None]).int(),
}
expect = {"padding": "mask keep"}
