"""Fused-QKV grouped attention for an in-house LM (wqkv as in InternLM-like checkpoints)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FusedGQA(nn.Module):
    def __init__(self, width=80, heads=10, kv_heads=5):
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        self.hd = width // heads
        self.wqkv = nn.Linear(width, (heads + 2 * kv_heads) * self.hd, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.wqkv(x).chunk(3, dim=-1)  # fault: AS105
        q = q.reshape(B, T, self.heads, self.hd).transpose(1, 2)
        k = k.reshape(B, T, self.kv_heads, self.hd).transpose(1, 2)
        v = v.reshape(B, T, self.kv_heads, self.hd).transpose(1, 2)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(out.transpose(1, 2).reshape(B, T, -1))


model = FusedGQA
inputs = (torch.randn(2, 9, 80, generator=torch.Generator().manual_seed(0)),)
