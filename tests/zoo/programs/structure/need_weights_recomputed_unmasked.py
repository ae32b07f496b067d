"""Attention with an optional look at its weights, output from the fused kernel."""

import torch
import torch.nn.functional as F
from torch import nn


class FlexibleAttention(nn.Module):
    """x: (batch, length, dim). With need_weights, also the weights, (batch, heads, length, length)."""

    def __init__(self, dim, num_heads, softmax_scale=None):
        super().__init__()
        self.num_heads = num_heads
        self.softmax_scale = softmax_scale or (dim // num_heads) ** -0.5
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def shape(self, t):
        return t.view(t.size(0), t.size(1), self.num_heads, -1).transpose(1, 2)

    def forward(self, x, attention_mask=None, need_weights=True):
        q, k, v = self.shape(self.q_proj(x)), self.shape(self.k_proj(x)), self.shape(self.v_proj(x))
        allowed = None if attention_mask is None else attention_mask[:, None, None, :].bool()
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=self.softmax_scale)
        o = self.out_proj(o.transpose(1, 2).flatten(2))
        if not need_weights:
            return o
        scores = q @ k.transpose(-1, -2) * self.softmax_scale
        weights = F.softmax(scores, dim=-1)  # fault: AS803
        return o, weights  # fault: AS803


def model():
    with torch.random.fork_rng():
        torch.manual_seed(220)
        return FlexibleAttention(dim=30, num_heads=5, softmax_scale=0.25).eval()


def inputs():
    x = torch.randn(3, 10, 30, generator=torch.Generator().manual_seed(221))
    attention_mask = (torch.arange(10)[None] < torch.tensor([10, 6, 8])[:, None]).long()
    return {"x": x, "attention_mask": attention_mask}


expect = {"padding": "attention_mask keep"}

# also: AS801 AS501
