"""EVA-like vision attention that takes a token mask, https://github.com/huggingface/pytorch-image-models/pull/2236."""

import torch
import torch.nn as nn


class EvaAttention(nn.Module):
    def __init__(self, dim, num_heads=4, attn_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, attn_mask=None):
        B, N, C = x.shape
        bias = torch.cat((self.q_bias, torch.zeros_like(self.q_bias), self.v_bias))
        qkv = nn.functional.linear(x, self.qkv.weight, bias)
        q, k, v = qkv.reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q = q * self.scale
        attn = q @ k.transpose(-2, -1)
        if attn_mask is not None:
            attn_mask = attn_mask.to(torch.bool)
            attn = attn.masked_fill(~attn_mask[:, None, None, :], float("-inf"))
        attn = attn.softmax(dim=-1)
        attn = self.attn_drop(attn)
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class EvaBlock(nn.Module):
    def __init__(self, dim=44):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn = EvaAttention(dim)
        self.pos_embed = nn.Parameter(torch.randn(1, 12, dim) * 0.02)

    def forward(self, patches, attn_mask=None):
        x = patches + self.pos_embed
        return x + self.attn(self.norm(x), attn_mask)


with torch.random.fork_rng():
    torch.manual_seed(2236)
    model = EvaBlock().eval()
    inputs = {
        "patches": torch.randn(3, 12, 44),
        "attn_mask": torch.arange(12) < torch.tensor([[12], [8], [5]]),
    }
expect = {"padding": "attn_mask keep"}
