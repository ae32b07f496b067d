"""Differential transformer attention (two softmax maps, lambda difference)."""
import math
import torch
import torch.nn as nn


class DiffAttn(nn.Module):
    def __init__(self, embed_dim=48, num_heads=3, depth=1):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads // 2
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim, bias=False) for _ in range(4))
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.lq1, self.lk1, self.lq2, self.lk2 = (nn.Parameter(torch.randn(self.head_dim) * 0.1) for _ in range(4))
        self.subln = nn.RMSNorm(2 * self.head_dim, eps=1e-5)

    def forward(self, x):
        bsz, n, d = x.shape
        q = self.q_proj(x).view(bsz, n, 2 * self.num_heads, self.head_dim).transpose(1, 2) * self.head_dim**-0.5
        k = self.k_proj(x).view(bsz, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(bsz, n, self.num_heads, 2 * self.head_dim).transpose(1, 2)
        w = torch.matmul(q, k.transpose(-1, -2)) + torch.triu(torch.full((n, n), float("-inf")), 1)
        w = torch.softmax(w, dim=-1, dtype=torch.float32).type_as(w)
        lam = torch.exp(torch.sum(self.lq1 * self.lk1)) - torch.exp(torch.sum(self.lq2 * self.lk2)) + self.lambda_init
        w = w.view(bsz, self.num_heads, 2, n, n)
        w = w[:, :, 0] - lam * w[:, :, 1]
        o = self.subln(torch.matmul(w, v)) * (1 - self.lambda_init)
        return self.out_proj(o.transpose(1, 2).reshape(bsz, n, d))


torch.manual_seed(0)
model = DiffAttn().eval()
inputs = torch.randn(2, 8, 48, generator=torch.Generator().manual_seed(0))
