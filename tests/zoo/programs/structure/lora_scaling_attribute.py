"""Self-attention with low-rank updates; `scaling` is alpha / r of the update."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRASelfAttention(nn.Module):
    def __init__(self, hidden=48, num_heads=4, r=4, alpha=16):
        super().__init__()
        self.num_heads = num_heads
        self.scaling = alpha / r
        self.qkv = nn.Linear(hidden, hidden * 3)
        self.lora_a = nn.Linear(hidden, r, bias=False)
        self.lora_b = nn.Linear(r, hidden * 3, bias=False)
        self.dense = nn.Linear(hidden, hidden)

    def project(self, x):
        return self.qkv(x) + self.lora_b(self.lora_a(x)) * self.scaling

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.project(x).view(n, t, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.dense(y.transpose(1, 2).reshape(n, t, c))


torch.manual_seed(0)
model = LoRASelfAttention().eval()
inputs = torch.randn(2, 9, 48, generator=torch.Generator().manual_seed(0))
