"""Retention: no softmax at all, scores are multiplied by a causal decay that differs by head."""

import torch
import torch.nn.functional as F
from torch import nn


class MultiScaleRetention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.w_q, self.w_k, self.w_v, self.w_g, self.w_o = (nn.Linear(dim, dim, bias=False) for _ in range(5))
        self.group_norm = nn.GroupNorm(heads, dim, eps=1e-5)
        self.register_buffer("gamma", 1 - 2.0 ** (-3 - torch.arange(heads).float()))
        self.register_buffer("angle", 10000.0 ** -torch.linspace(0, 1, self.hd // 2).repeat_interleave(2))

    def theta_shift(self, x, sin, cos):
        rot = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
        return x * cos + rot * sin

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (w(x).view(b, n, self.heads, self.hd).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        index = torch.arange(n, device=x.device).float()
        sin, cos = torch.sin(index[:, None] * self.angle), torch.cos(index[:, None] * self.angle)
        q, k = self.theta_shift(q, sin, cos), self.theta_shift(k * self.hd**-0.5, sin, cos)
        gap = index[:, None] - index[None, :]
        decay = torch.where(gap >= 0, self.gamma[:, None, None] ** gap.clamp(min=0), 0.0)
        decay = decay / decay.sum(dim=-1, keepdim=True).sqrt()
        qk = (q @ k.transpose(-1, -2)) * decay
        qk = qk / qk.detach().abs().sum(dim=-1, keepdim=True).clamp(min=1)
        out = (qk @ v).transpose(1, 2).reshape(b * n, d)
        out = self.group_norm(out).view(b, n, d)
        return self.w_o(F.silu(self.w_g(x)) * out)


class RetNet(nn.Module):
    def __init__(self, vocab=44, dim=32, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.ret = nn.ModuleList(MultiScaleRetention(dim, heads) for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for ln, ret in zip(self.ln, self.ret):
            x = x + ret(ln(x))
        return self.out(x)


with torch.random.fork_rng():
    torch.manual_seed(102)
    model = RetNet().eval()

inputs = torch.randint(0, 44, (3, 12), generator=torch.Generator().manual_seed(103))
expect = {"causal": True}
