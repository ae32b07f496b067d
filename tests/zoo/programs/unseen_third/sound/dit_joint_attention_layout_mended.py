"""Joint attention of an MM-DiT: text and image tokens are concatenated along the sequence."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w


class JointAttention(nn.Module):
    def __init__(self, d=48, h=4):
        super().__init__()
        self.h = h
        self.x_qkv, self.c_qkv = nn.Linear(d, 3 * d), nn.Linear(d, 3 * d)
        self.ln_q, self.ln_k = RMSNorm(d // h), RMSNorm(d // h)
        self.x_out, self.c_out = nn.Linear(d, d), nn.Linear(d, d)

    def pre(self, t, lin):
        q, k, v = lin(t).reshape(t.shape[0], t.shape[1], 3, self.h, -1).unbind(2)
        return self.ln_q(q), self.ln_k(k), v

    def forward(self, x, c):
        q, k, v = (torch.cat(p, dim=1) for p in zip(self.pre(c, self.c_qkv), self.pre(x, self.x_qkv)))
        q, k = q.transpose(1, 2), k.transpose(1, 2)
        v = v.transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v)
        o = o.transpose(1, 2).flatten(2)
        return self.x_out(o[:, c.shape[1] :]), self.c_out(o[:, : c.shape[1]])


class MMBlock(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.ada = nn.Linear(16, 6 * d)
        self.norm_x, self.norm_c = nn.LayerNorm(d, elementwise_affine=False), nn.LayerNorm(d, elementwise_affine=False)
        self.attn = JointAttention(d)

    def forward(self, x, c, y):
        sx, bx, gx, sc, bc, gc = self.ada(nn.functional.silu(y))[:, None].chunk(6, -1)
        ax, ac = self.attn(self.norm_x(x) * (1 + sx) + bx, self.norm_c(c) * (1 + sc) + bc)
        return x + gx * ax, c + gc * ac


with torch.random.fork_rng():
    torch.manual_seed(81)
    model = MMBlock().eval()
_g = torch.Generator().manual_seed(81)
inputs = (torch.randn(2, 15, 48, generator=_g), torch.randn(2, 6, 48, generator=_g), torch.randn(2, 16, generator=_g))
