"""Window attention: the bias of the table is (1, heads, n, n), with as many windows as heads."""

import torch
from torch import nn


class WindowAttention(nn.Module):
    def __init__(self, dim=32, window=3, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.relative_position_bias_table = nn.Parameter(
            0.3 * torch.randn((2 * window - 1) ** 2, num_heads)
        )
        grid = torch.stack(
            torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        ).flatten(1)
        apart = grid[:, :, None] - grid[:, None, :] + window - 1
        self.register_buffer("relative_position_index", apart[0] * (2 * window - 1) + apart[1])
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        bias = bias.view(N, N, -1).permute(2, 0, 1).contiguous()
        attn = attn + bias.unsqueeze(0)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


model = WindowAttention().eval()
inputs = torch.randn(4, 9, 32)
