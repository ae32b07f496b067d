"""Perceiver encoder: a small latent array reads the pixels, then thinks."""
import torch
import torch.nn as nn


class PreNormCross(nn.Module):
    def __init__(self, latent_dim, ctx_dim, heads):
        super().__init__()
        self.norm = nn.LayerNorm(latent_dim)
        self.norm_ctx = nn.LayerNorm(ctx_dim)
        self.mha = nn.MultiheadAttention(latent_dim, heads, kdim=ctx_dim, vdim=ctx_dim, batch_first=True)

    def forward(self, z, ctx):
        ctx = self.norm_ctx(ctx)
        return z + self.mha(self.norm(z), ctx, ctx, need_weights=False)[0]


class LatentBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm_att = nn.LayerNorm(dim)
        self.norm_ffn = nn.LayerNorm(dim)
        self.mha = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, z):
        y = self.norm_att(z)
        z = z + self.mha(y, y, y, need_weights=False)[0]
        z = z + self.ffn(self.norm_ffn(z))
        return z


class Perceiver(nn.Module):
    def __init__(self, in_ch=3, bands=4, n_latents=8, dim=40, heads=5, depth=4, classes=4):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(bands) * torch.pi)
        ctx = in_ch + 4 * bands + 2
        self.latents = nn.Parameter(torch.randn(n_latents, dim) * 0.02)
        self.cross = PreNormCross(dim, ctx, heads)
        self.thinking = nn.ModuleList(LatentBlock(dim, heads) for _ in range(depth))
        self.to_logits = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def fourier(self, h, w):
        yx = torch.stack(torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij"), -1)
        ang = yx[..., None] * self.bands
        return torch.cat([yx, ang.sin().flatten(2), ang.cos().flatten(2)], -1).flatten(0, 1)

    def forward(self, img):
        b, c, h, w = img.shape
        data = torch.cat([img.flatten(2).mT, self.fourier(h, w).expand(b, -1, -1)], -1)
        z = self.cross(self.latents.expand(b, -1, -1), data)
        for blk in self.thinking:
            z = blk(z)
        return self.to_logits(z.mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(77)
        return Perceiver().eval()


inputs = torch.rand(2, 3, 9, 7, generator=torch.Generator().manual_seed(78))
