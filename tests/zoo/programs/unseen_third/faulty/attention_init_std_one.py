"""Self-attention with raw nn.Parameter matrices."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RawAttention(nn.Module):
    def __init__(self, d_embed=64, n_heads=2):
        super().__init__()
        self.n_heads = n_heads
        self.W_q = nn.Parameter(torch.randn(d_embed, d_embed))  # fault: AS901|AS302
        self.W_k = nn.Parameter(torch.randn(d_embed, d_embed))  # fault: AS901|AS302
        self.W_v = nn.Parameter(torch.randn(d_embed, d_embed))
        self.W_o = nn.Parameter(torch.randn(d_embed, d_embed))

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = ((x @ w).reshape(B, T, self.n_heads, -1).transpose(1, 2) for w in (self.W_q, self.W_k, self.W_v))
        scores = F.softmax(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5, dim=-1)  # fault: AS901|AS302
        return (scores @ v).transpose(1, 2).reshape(B, T, D) @ self.W_o


torch.manual_seed(0)
model = RawAttention()
inputs = torch.randn(2, 10, 64, generator=torch.Generator().manual_seed(0))
