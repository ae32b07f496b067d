"""Diffusion attention with the scale split over q and k."""
import math
import torch
import torch.nn as nn


class QKVAttention(nn.Module):
    def __init__(self, n_heads):
        super().__init__()
        self.n_heads = n_heads

    def forward(self, qkv):
        bs, width, length = qkv.shape
        ch = width // (3 * self.n_heads)
        q, k, v = qkv.chunk(3, dim=1)
        scale = 1 / math.sqrt(math.sqrt(ch))
        w = torch.einsum("bct,bcs->bts", (q * scale).view(bs * self.n_heads, ch, length), (k * scale).view(bs * self.n_heads, ch, length))
        w = torch.softmax(w.float(), dim=-1).type(w.dtype)
        return torch.einsum("bts,bcs->bct", w, v.reshape(bs * self.n_heads, ch, length)).reshape(bs, -1, length)


class AttnRes(nn.Module):
    def __init__(self, c=32, heads=2):
        super().__init__()
        self.norm = nn.GroupNorm(8, c)
        self.qkv, self.proj = nn.Conv1d(c, 3 * c, 1), nn.Conv1d(c, c, 1)
        self.attention = QKVAttention(heads)

    def forward(self, x):
        b, c, *sp = x.shape
        h = x.reshape(b, c, -1)
        return (h + self.proj(self.attention(self.qkv(self.norm(h))))).reshape(b, c, *sp)


torch.manual_seed(6)
model = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), AttnRes(), nn.SiLU(), nn.ConvTranspose2d(32, 3, 2, 2)).eval()
inputs = torch.randn(2, 3, 10, 10, generator=torch.Generator().manual_seed(6))
# note: AS501
