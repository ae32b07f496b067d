"""A masked-autoencoder style ViT encoder with fixed 2-D sine-cosine positions."""

import torch
from torch import nn


def sincos_1d(dim, places):
    omega = 1.0 / 10000 ** (torch.arange(dim // 2, dtype=torch.float64) / (dim // 2))
    angles = places.reshape(-1)[:, None] * omega[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def sincos_2d(dim, side):
    rows, cols = torch.meshgrid(
        torch.arange(side, dtype=torch.float64),
        torch.arange(side, dtype=torch.float64),
        indexing="ij",
    )
    return torch.cat([sincos_1d(dim // 2, rows), sincos_1d(dim // 2, cols)], dim=1)


class Attention(nn.Module):
    def __init__(self, dim, num_heads=8):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=True)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attn = ((q * self.scale) @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class Block(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, num_heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Encoder(nn.Module):
    def __init__(self, image=20, patch=4, dim=48, depth=2, heads=6):
        super().__init__()
        self.side = image // patch
        self.patch_embed = nn.Conv2d(3, dim, patch, patch)
        self.pos_embed = nn.Parameter(torch.zeros(1, self.side**2, dim), requires_grad=False)  # fault: AS501
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.initialize_weights()

    def initialize_weights(self):
        table = sincos_2d(self.pos_embed.shape[-1], self.side).float().unsqueeze(0)
        self.pos_embed.data.clone().copy_(table)  # fault: AS501
        w = self.patch_embed.weight.data
        nn.init.xavier_uniform_(w.view(w.shape[0], -1))

    def forward(self, imgs):
        x = self.patch_embed(imgs).flatten(2).transpose(1, 2)
        x = x + self.pos_embed  # fault: AS501
        for blk in self.blocks:
            x = blk(x)
        return self.norm(x)


with torch.random.fork_rng():
    torch.manual_seed(0)
    model = Encoder().eval()

inputs = torch.randn(2, 3, 20, 20, generator=torch.Generator().manual_seed(9))
