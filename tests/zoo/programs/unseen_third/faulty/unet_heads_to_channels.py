"""DDPM U-Net attention (denoising-diffusion style, heads folded into channels)."""
import torch
from torch import nn, einsum


class LayerNorm2d(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.g = nn.Parameter(torch.ones(1, dim, 1, 1))

    def forward(self, x):
        var = torch.var(x, dim=1, unbiased=False, keepdim=True)
        return (x - x.mean(1, keepdim=True)) * (var + 1e-5).rsqrt() * self.g


class Attention(nn.Module):
    def __init__(self, dim, heads=4, dim_head=8):
        super().__init__()
        self.scale, self.heads = dim_head**-0.5, heads
        self.norm = LayerNorm2d(dim)
        self.to_qkv = nn.Conv2d(dim, heads * dim_head * 3, 1, bias=False)
        self.to_out = nn.Conv2d(heads * dim_head, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        qkv = self.to_qkv(self.norm(x)).chunk(3, dim=1)
        q, k, v = (t.reshape(b, self.heads, -1, h * w) for t in qkv)
        sim = einsum("b h d i, b h d j -> b h i j", q * self.scale, k)
        attn = (sim - sim.amax(dim=-1, keepdim=True).detach()).softmax(dim=-1)
        out = einsum("b h i j, b h d j -> b h i d", attn, v)
        out = out.reshape(b, -1, h, w)  # fault: AS103
        return self.to_out(out) + x


with torch.random.fork_rng():
    torch.manual_seed(114)
    model = Attention(32).eval()
inputs = torch.randn(2, 32, 5, 7, generator=torch.Generator().manual_seed(114))
