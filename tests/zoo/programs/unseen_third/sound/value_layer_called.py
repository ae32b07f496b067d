"""Multi-head attention typed along a video."""
import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=32, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.q_layer = nn.Linear(d_model, d_model)
        self.k_layer = nn.Linear(d_model, d_model)
        self.v_layer = nn.Linear(d_model, d_model)
        self.linear_layer = nn.Linear(d_model, d_model)

    def forward(self, x):
        B, N, C = x.size()
        q = self.q_layer(x).reshape(B, N, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        k = self.k_layer(x).reshape(B, N, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        v = self.v_layer(x).reshape(B, N, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        scaled = torch.matmul(q, k.transpose(-1, -2)) / self.head_dim**0.5
        attention = torch.nn.functional.softmax(scaled, dim=-1)
        values = torch.matmul(attention, v).permute(0, 2, 1, 3).reshape(B, N, C)
        return self.linear_layer(values)


torch.manual_seed(0)
model = MultiHeadAttention()
inputs = torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(0))
