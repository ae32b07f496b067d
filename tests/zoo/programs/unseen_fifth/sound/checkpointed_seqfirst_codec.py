"""Neural audio codec bottleneck: time-first nn.MultiheadAttention, gradient checkpointing, tied layers."""
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


class SharedLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, heads)
        self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.ELU(), nn.Linear(2 * d, d))

    def forward(self, x, mask):
        y = self.norm(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(x)


class Codec(nn.Module):
    def __init__(self, d=32, heads=4, repeats=3, stride=4):
        super().__init__()
        self.down = nn.Conv1d(1, d, 2 * stride, stride)
        layer = SharedLayer(d, heads)
        self.layers = nn.ModuleList([layer] * repeats)
        self.up = nn.ConvTranspose1d(d, 1, 2 * stride, stride)
        self.pos = nn.Parameter(torch.randn(64, 1, d) * 0.02)

    def forward(self, wav):
        z = self.down(wav).permute(2, 0, 1)             # T, B, C
        T = z.shape[0]
        z = z + self.pos[:T]
        mask = torch.full((T, T), float("-inf")).triu(1)
        for layer in self.layers:
            if self.training:
                z = checkpoint(layer, z, mask, use_reentrant=False)
            else:
                z = layer(z, mask)
        return self.up(z.permute(1, 2, 0))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(65)
        return Codec().eval()


inputs = torch.randn(3, 1, 60, generator=torch.Generator().manual_seed(66))
