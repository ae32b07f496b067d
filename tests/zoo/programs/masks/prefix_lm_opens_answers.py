"""Prefix language model: the question is read both ways, the answer left to right."""

import torch
import torch.nn.functional as F
from torch import nn


def prefix_mask(length, prefix):
    """(length, length) of True where a row may look at a column."""
    rows = torch.arange(length).unsqueeze(1)
    cols = torch.arange(length).unsqueeze(0)
    causal = cols <= rows
    return causal | (rows >= prefix)  # fault: AS201


class PrefixAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, keep):
        b, t, c = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.n_heads, c // self.n_heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class PrefixLM(nn.Module):
    def __init__(self, vocab=33, dim=28, n_heads=2, depth=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(32, dim) * 0.1)
        self.attn = nn.ModuleList(PrefixAttention(dim, n_heads) for _ in range(depth))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
            for _ in range(depth)
        )
        self.na = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.nf = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens, prefix: int):
        t = tokens.shape[1]
        keep = prefix_mask(t, prefix)
        x = self.tok(tokens) + self.pos[:t]
        for attn, ffn, na, nf in zip(self.attn, self.ffn, self.na, self.nf):
            x = x + attn(na(x), keep)
            x = x + ffn(nf(x))
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(4)
    model = PrefixLM().eval()

inputs = {
    "tokens": torch.randint(0, 33, (3, 12), generator=torch.Generator().manual_seed(3)),
    "prefix": 5,
}
expect = {"causal": True, "prefix": "prefix"}
