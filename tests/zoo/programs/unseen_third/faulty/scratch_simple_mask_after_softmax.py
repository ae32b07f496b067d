"""Causal attention the easy way: tril on the attention weights."""
import torch
import torch.nn as nn


class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, num_heads):
        super().__init__()
        self.heads = num_heads
        self.W_qkv = nn.Linear(d_in, 3 * d_out)
        self.proj = nn.Linear(d_out, d_out)
        self.register_buffer("mask_simple", torch.tril(torch.ones(context_length, context_length)))

    def forward(self, x):
        b, n, _ = x.shape
        qkv = self.W_qkv(x).view(b, n, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        attn_weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1)
        masked_simple = attn_weights * self.mask_simple[:n, :n]  # fault: AS204
        out = masked_simple @ v
        return self.proj(out.transpose(1, 2).reshape(b, n, -1))


torch.manual_seed(123)
model = CausalAttention(d_in=30, d_out=30, context_length=64, num_heads=3).eval()
inputs = torch.randn(2, 11, 30, generator=torch.Generator().manual_seed(4))
