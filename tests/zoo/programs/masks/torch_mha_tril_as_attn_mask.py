"""Small GPT put together from nn.MultiheadAttention blocks."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads)
        self.ln2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, keep):
        y = self.ln1(x)
        y, _ = self.attn(y, y, y, attn_mask=keep)  # fault: AS205
        x = x + y
        return x + self.ff(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab=35, dim=24, heads=4, depth=1, context=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.ln = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        b, t = ids.shape
        keep = torch.tril(torch.ones(t, t, dtype=torch.bool, device=ids.device))  # fault: AS205
        x = (self.tok(ids) + self.pos(torch.arange(t, device=ids.device))).transpose(0, 1)
        for block in self.blocks:
            x = block(x, keep)
        return self.head(self.ln(x)).transpose(0, 1)


# also: AS201 AS203 AS212 AS802
with torch.random.fork_rng():
    torch.manual_seed(30)
    model = GPT().eval()

inputs = (torch.randint(0, 35, (3, 8), generator=torch.Generator().manual_seed(30)),)
expect = {"causal": True}
