"""Spatial transformer: image tokens read the prompt."""

import torch
import torch.nn.functional as F
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=4, dim_head=9):
        super().__init__()
        inner = heads * dim_head
        context_dim = context_dim or query_dim
        self.heads, self.dim_head = heads, dim_head
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, query_dim)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        b, n, _ = x.shape
        q = self.to_q(x).view(b, -1, self.heads, self.dim_head).transpose(1, 2)
        k = self.to_k(context).view(b, -1, self.heads, self.dim_head).transpose(1, 2)  # fault: AS105
        v = self.to_v(context).view(b, -1, self.heads, self.dim_head).transpose(1, 2)
        if mask is not None:
            mask = mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


class SpatialTransformer(nn.Module):
    def __init__(self, channels=32, prompt=20, vocab=60):
        super().__init__()
        self.text = nn.Embedding(vocab, prompt)
        self.text_pos = nn.Parameter(torch.randn(12, prompt) * 0.5)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.attn1 = CrossAttention(channels)
        self.attn2 = CrossAttention(channels)  # fault: AS105
        self.ff = nn.Sequential(nn.Linear(channels, 64), nn.GELU(), nn.Linear(64, channels))

    def forward(self, latent, prompt_ids, prompt_mask):
        b, c, h, w = latent.shape
        ctx = self.text(prompt_ids) + self.text_pos[: prompt_ids.size(1)]
        x = latent.flatten(2).transpose(1, 2)
        x = x + self.attn1(self.norms[0](x))
        x = x + self.attn2(self.norms[1](x), context=ctx, mask=prompt_mask)  # fault: AS105
        x = x + self.ff(self.norms[2](x))
        return x.transpose(1, 2).reshape(b, c, h, w)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(44)
        return SpatialTransformer().eval()


_g = torch.Generator().manual_seed(2)
inputs = {
    "latent": torch.randn(3, 32, 4, 6, generator=_g),
    "prompt_ids": torch.randint(0, 60, (3, 11), generator=_g),
    "prompt_mask": torch.arange(11)[None] < torch.tensor([[11], [4], [7]]),
}
expect = {"padding": "prompt_mask keep"}
