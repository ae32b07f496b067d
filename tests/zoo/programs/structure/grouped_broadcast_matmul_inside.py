"""Queries (batch, kv heads, group, tokens, size) meet keys that are broadcast over the group."""

import torch
from torch import nn


class BroadcastGroups(nn.Module):
    def __init__(self, d_model=48, n_head=6, n_kv_head=3):
        super().__init__()
        self.n_head, self.n_kv_head = n_head, n_kv_head
        self.hs = d_model // n_head
        self.c_q, self.c_k, self.c_v = (
            nn.Linear(d_model, n * self.hs) for n in (n_head, n_kv_head, n_kv_head)
        )
        self.c_proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        B, T, C = x.size()
        rep = self.n_head // self.n_kv_head
        q = self.c_q(x).view(B, T, self.n_kv_head, rep, self.hs)
        q = q.permute(0, 2, 3, 1, 4)
        k = self.c_k(x).view(B, T, self.n_kv_head, 1, self.hs).permute(0, 2, 3, 1, 4)
        v = self.c_v(x).view(B, T, self.n_kv_head, 1, self.hs).permute(0, 2, 3, 1, 4)
        att = (q @ k.transpose(-2, -1) / self.hs**0.5).softmax(dim=-1)
        y = (att @ v).permute(0, 3, 1, 2, 4).reshape(B, T, C)
        return self.c_proj(y)


torch.manual_seed(0)
model = BroadcastGroups().eval()
inputs = torch.randn(2, 8, 48, generator=torch.Generator().manual_seed(0))
