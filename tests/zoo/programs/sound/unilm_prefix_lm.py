"""Prefix language model: the first five tokens see each other, the rest reads from left to right."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

PREFIX = 5


def prefix_mask(n, prefix, device):
    allowed = torch.ones(n, n, dtype=torch.bool, device=device).tril()
    allowed[:, :prefix] = True
    return allowed


class PrefixBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln1 = nn.LayerNorm(d)
        self.wqkv = nn.Linear(d, 3 * d)
        self.wo = nn.Linear(d, d)
        self.ln2 = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 3 * d), nn.SiLU(), nn.Linear(3 * d, d))

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.wqkv(self.ln1(x)).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        ctx = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.wo(ctx.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.ln2(x))


class PrefixLM(nn.Module):
    def __init__(self, vocab=70, d=44, h=4, depth=2, max_len=32):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(max_len, d)
        self.blocks = nn.ModuleList([PrefixBlock(d, h) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab)

    def forward(self, ids):
        n = ids.shape[1]
        mask = prefix_mask(n, PREFIX, ids.device)
        x = self.tok(ids) + self.pos.weight[:n]
        for block in self.blocks:
            x = block(x, mask)
        return self.lm_head(self.ln_f(x))


with torch.random.fork_rng():
    torch.manual_seed(3)
    model = PrefixLM().eval()

inputs = torch.randint(0, 70, (3, 12), generator=torch.Generator().manual_seed(8))
expect = {"causal": True, "prefix": PREFIX}
