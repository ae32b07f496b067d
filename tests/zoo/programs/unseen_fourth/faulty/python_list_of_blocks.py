"""Weather nowcasting: patches of radar frames through a list of attention blocks."""
import torch
import torch.nn as nn


class RadarBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, d * 2), nn.GELU(), nn.Linear(d * 2, d))

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attn(y, y, y, need_weights=False)[0]
        return x + self.mlp(x)


class Nowcast(nn.Module):
    def __init__(self, d=32, depth=3):
        super().__init__()
        self.embed = nn.Conv2d(4, d, 4, 4)
        self.pos = nn.Parameter(torch.randn(1, 16, d) * .05)
        self.blocks = [RadarBlock(d, 4) for _ in range(depth)]  # fault: AS903
        self.head = nn.ConvTranspose2d(d, 1, 4, 4)

    def forward(self, frames):
        f = self.embed(frames)
        b, d, h, w = f.shape
        x = f.flatten(2).mT + self.pos
        for blk in self.blocks:
            x = blk(x)
        return self.head(x.mT.reshape(b, d, h, w))


torch.manual_seed(4)
model = Nowcast().eval()
inputs = torch.randn(2, 4, 16, 16, generator=torch.Generator().manual_seed(4))
