"""Decoder with chunked local layers and a global layer without rotary embedding, temperature-tuned."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim, heads, use_rope, chunk):
        super().__init__()
        self.heads, self.use_rope, self.chunk = heads, use_rope, chunk
        self.norm = nn.RMSNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def rope(self, x):
        half = x.shape[-1] // 2
        inv = 500000.0 ** (-torch.arange(half, device=x.device) / half)
        theta = torch.arange(x.shape[-2], device=x.device)[:, None] * inv
        x1, x2 = x[..., 0::2], x[..., 1::2]
        rotated = torch.stack((x1 * theta.cos() - x2 * theta.sin(), x1 * theta.sin() + x2 * theta.cos()), -1)
        return rotated.flatten(-2)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        pos = torch.arange(t, device=x.device)
        mask = pos[:, None] >= pos[None, :]
        if self.use_rope:
            q, k = self.rope(q), self.rope(k)
            mask = mask & (pos[:, None] // self.chunk == pos[None, :] // self.chunk)
        else:
            temperature = torch.log1p(torch.floor((pos + 1.0) / 8)) * 0.1 + 1.0
            q = q * temperature[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(y.transpose(1, 2).reshape(b, t, d))


class IRope(nn.Module):
    def __init__(self, vocab=100, dim=32, heads=4, chunk=5, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, heads, (i + 1) % 4 != 0, chunk) for i in range(depth))
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        h = self.embed(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.lm_head(h)


def make():
    with torch.random.fork_rng():
        torch.manual_seed(44)
        return IRope().eval()


model = make()
inputs = {"tokens": torch.randint(0, 100, (2, 17), generator=torch.Generator().manual_seed(1))}
expect = {"causal": True}
