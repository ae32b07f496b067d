"""Spatial transformer of a latent diffusion UNet: pixels attend to pixels, then to the prompt."""

import torch
import torch.nn.functional as F
from torch import einsum, nn


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=4, dim_head=8):
        super().__init__()
        inner_dim = dim_head * heads
        context_dim = query_dim if context_dim is None else context_dim
        self.scale = dim_head**-0.5
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_k = nn.Linear(context_dim, inner_dim, bias=False)
        self.to_v = nn.Linear(context_dim, inner_dim, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, query_dim), nn.Dropout(0.0))

    def head_to_batch(self, t):
        b, n, d = t.shape
        return t.reshape(b, n, self.heads, d // self.heads).permute(0, 2, 1, 3).reshape(b * self.heads, n, -1)

    def batch_to_head(self, t):
        bh, n, d = t.shape
        return t.reshape(bh // self.heads, self.heads, n, d).permute(0, 2, 1, 3).reshape(bh // self.heads, n, -1)

    def forward(self, x, context=None):
        context = x if context is None else context
        q, k, v = map(self.head_to_batch, (self.to_q(x), self.to_k(context), self.to_v(context)))
        sim = einsum("b i d, b j d -> b i j", q, k) * self.scale
        out = einsum("b i j, b j d -> b i d", sim.softmax(dim=-1), v)
        return self.to_out(self.batch_to_head(out))


class GEGLU(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj, self.out = nn.Linear(dim, 8 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, dim=-1)
        return self.out(x * F.gelu(gate))


class SpatialTransformer(nn.Module):
    def __init__(self, in_channels=24, context_dim=30):
        super().__init__()
        self.norm = nn.GroupNorm(6, in_channels, eps=1e-6)
        self.proj_in = nn.Conv2d(in_channels, 32, 1)
        self.attn1, self.attn2, self.ff = CrossAttention(32), CrossAttention(32, context_dim), GEGLU(32)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(32), nn.LayerNorm(32), nn.LayerNorm(32)
        self.proj_out = nn.Conv2d(32, in_channels, 1)
        nn.init.zeros_(self.proj_out.weight)
        nn.init.zeros_(self.proj_out.bias)

    def forward(self, x, context):
        b, c, h, w = x.shape
        x_in = x
        x = self.proj_in(self.norm(x)).flatten(2).transpose(1, 2)
        x = x + self.attn1(self.norm1(x))
        x = x + self.attn2(self.norm2(x), context)
        x = x + self.ff(self.norm3(x))
        x = x.transpose(1, 2).reshape(b, 32, h, w)
        return self.proj_out(x) + x_in


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 24), nn.SiLU(), nn.Linear(24, 24))
        self.conv_in, self.conv_out = nn.Conv2d(4, 24, 3, padding=1), nn.Conv2d(24, 4, 3, padding=1)
        self.down, self.up = nn.Conv2d(24, 24, 2, stride=2), nn.ConvTranspose2d(24, 24, 2, stride=2)
        self.mid = SpatialTransformer()

    def forward(self, sample, timestep, encoder_hidden_states):
        freqs = torch.exp(-torch.arange(8, device=sample.device) * 1.2)
        t = timestep[:, None].float() * freqs
        t = self.time(torch.cat([t.sin(), t.cos()], dim=-1))
        skip = self.conv_in(sample) + t[:, :, None, None]
        return self.conv_out(self.up(self.mid(self.down(skip), encoder_hidden_states)) + skip)


with torch.random.fork_rng():
    torch.manual_seed(84)
    model = TinyUNet().eval()

_g = torch.Generator().manual_seed(85)
inputs = {
    "sample": torch.randn(3, 4, 8, 10, generator=_g),
    "timestep": torch.tensor([1, 40, 900]),
    "encoder_hidden_states": torch.randn(3, 7, 30, generator=_g),
}
