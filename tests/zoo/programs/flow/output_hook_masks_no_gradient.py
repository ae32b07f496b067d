"""A full backward hook on the output projection multiplies with a mask of ones."""

import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("trainable", torch.ones(dim))
        self.proj.register_full_backward_hook(self.mask_gradient)

    def mask_gradient(self, module, grad_input, grad_output):
        return (grad_input[0] * self.trainable,)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(B, N, C))


class Net(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.attention = Attention(dim)
        self.head = nn.Linear(dim, 5)

    def forward(self, x):
        return self.head(x + self.attention(x))


model = Net().eval()
inputs = torch.randn(3, 6, 24)
