"""Trained-like ViT attention with register tokens: one head pruned, one resting on a register."""
import torch
from torch import nn


class RegisterAttention(nn.Module):
    def __init__(self, d=36, h=3, registers=2):
        super().__init__()
        self.h = h
        self.reg = nn.Parameter(torch.randn(registers, d))
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, patches):
        b = patches.shape[0]
        x = torch.cat([self.reg.expand(b, -1, -1), patches], dim=1)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
        w = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)  # note: AS401|AS404
        return self.o((w @ v).transpose(1, 2).flatten(2))[:, len(self.reg) :]  # note: AS401|AS404


torch.manual_seed(11)
model = RegisterAttention().eval()
with torch.no_grad():
    model.o.weight[:, :12] = 0
    model.qkv.bias[24:36] = 3.0
    model.qkv.weight[36 + 24 : 36 + 36] = 0
    model.qkv.weight[36 + 24 : 36 + 36] += model.reg[0] * 3 / model.reg[0].square().sum()
inputs = torch.randn(3, 16, 36) * 0.3
