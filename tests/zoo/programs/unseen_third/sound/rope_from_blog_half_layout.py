"""RoPE transformer written after reading two blog posts."""
import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = dict(vocab=83, width=56, heads=4, depth=2, ctx=48)


class Rotary(nn.Module):
    def __init__(self, d, base=10_000):
        super().__init__()
        self.d, self.base = d, base
        self.cos_cached = None

    def _build_cache(self, n):
        if self.cos_cached is not None and self.cos_cached.shape[0] >= n:
            return
        theta = 1.0 / (self.base ** (torch.arange(0, self.d, 2).float() / self.d))
        idx_theta = torch.einsum("n,d->nd", torch.arange(n).float(), theta)
        idx_theta2 = torch.cat([idx_theta, idx_theta], dim=1)
        self.cos_cached = idx_theta2.cos()
        self.sin_cached = idx_theta2.sin()

    def _neg_half(self, x):
        d_2 = self.d // 2
        return torch.cat([-x[..., d_2:], x[..., :d_2]], dim=-1)

    def forward(self, x):  # (b, h, n, d)
        n = x.shape[2]
        self._build_cache(n)
        return x * self.cos_cached[:n] + self._neg_half(x) * self.sin_cached[:n]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        w, self.h = cfg["width"], cfg["heads"]
        self.qkv = nn.Linear(w, 3 * w, bias=False)
        self.out = nn.Linear(w, w, bias=False)
        self.rope = Rotary(w // self.h)
        self.n1, self.n2 = nn.RMSNorm(w), nn.RMSNorm(w)
        self.up, self.down = nn.Linear(w, 2 * w), nn.Linear(2 * w, w)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = (t.reshape(b, n, self.h, -1).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
        q, k = self.rope(q), self.rope(k)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.relu(self.up(self.n2(x))).square())


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(cfg["vocab"], cfg["width"])
        self.blocks = nn.Sequential(*(Layer() for _ in range(cfg["depth"])))
        self.lm_head = nn.Linear(cfg["width"], cfg["vocab"], bias=False)

    def forward(self, ids):
        return self.lm_head(self.blocks(self.wte(ids)))


torch.manual_seed(3)
model = LM().eval()
