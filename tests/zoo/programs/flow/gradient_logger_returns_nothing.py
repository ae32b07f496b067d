"""A hook logs the size of gradients, and hands nothing on."""

import torch
from torch import nn


class GradientLog:
    def __init__(self):
        self.sizes = []

    def __call__(self, grad):
        self.sizes.append(grad.norm().item())


class Block(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width))
        self.log = GradientLog()

    def forward(self, x):
        h = self.norm(x)
        attended, _ = self.attn(h, h, h, need_weights=False)
        if attended.requires_grad:
            attended.register_hook(self.log)
        x = x + attended
        return x + self.ffn(x)


model = Block().eval()
inputs = torch.randn(2, 9, 32)
