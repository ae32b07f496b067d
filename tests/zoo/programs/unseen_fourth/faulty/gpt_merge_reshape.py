"""Decoder-only model with rotary free positions, heads merged before c_proj."""
import torch
from torch import nn
import torch.nn.functional as F


class SelfAttn(nn.Module):
    def __init__(self, width, n):
        super().__init__()
        self.n = n
        self.in_proj = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, h):
        B, L, W = h.shape
        q, k, v = self.in_proj(h).chunk(3, dim=-1)
        heads = [t.reshape(B, L, self.n, W // self.n).permute(0, 2, 1, 3) for t in (q, k, v)]
        ctx = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.c_proj(ctx.reshape(B, L, W))  # fault: AS103


class LM(nn.Module):
    def __init__(self, vocab=80, width=32, n=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(50, width)
        self.attn = nn.ModuleList(SelfAttn(width, n) for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.unembed = nn.Linear(width, vocab)

    def forward(self, tokens):
        x = self.emb(tokens) + self.pos(torch.arange(tokens.shape[1]))
        for a, l in zip(self.attn, self.ln):
            x = x + a(l(x))
        return self.unembed(x)


torch.manual_seed(9)
model = LM().eval()
# also: AS201
