"""Self-attention block of a small diffusion UNet, https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146."""

import torch
from torch import nn


class AttentionBlock(nn.Module):
    def __init__(self, n_channels: int, n_heads: int = 2, d_k: int = 10):
        super().__init__()
        self.norm = nn.GroupNorm(4, n_channels)
        self.projection = nn.Linear(n_channels, n_heads * d_k * 3)
        self.output = nn.Linear(n_heads * d_k, n_channels)
        self.scale = d_k**-0.5
        self.n_heads = n_heads
        self.d_k = d_k

    def forward(self, x):
        batch_size, n_channels, height, width = x.shape
        normed = self.norm(x).view(batch_size, n_channels, -1).permute(0, 2, 1)
        x = x.view(batch_size, n_channels, -1).permute(0, 2, 1)
        qkv = self.projection(normed).view(batch_size, -1, self.n_heads, 3 * self.d_k)
        q, k, v = torch.chunk(qkv, 3, dim=-1)
        attn = torch.einsum("bihd,bjhd->bijh", q, k) * self.scale
        attn = attn.softmax(dim=1)  # fault: AS101
        res = torch.einsum("bijh,bjhd->bihd", attn, v)
        res = res.reshape(batch_size, -1, self.n_heads * self.d_k)
        res = self.output(res) + x
        return res.permute(0, 2, 1).view(batch_size, n_channels, height, width)


class MiddleBlock(nn.Module):
    def __init__(self, n_channels: int = 16):
        super().__init__()
        self.res1 = nn.Conv2d(n_channels, n_channels, 3, padding=1)
        self.attn = AttentionBlock(n_channels)
        self.res2 = nn.Conv2d(n_channels, n_channels, 3, padding=1)

    def forward(self, x):
        x = x + torch.nn.functional.silu(self.res1(x))
        x = self.attn(x)
        return x + torch.nn.functional.silu(self.res2(x))


with torch.random.fork_rng():
    torch.manual_seed(146)
    model = MiddleBlock().eval()
    inputs = torch.randn(2, 16, 3, 4)
