"""Axial attention: first along the height, then along the width, the other axis folded into the batch."""
import torch
import torch.nn as nn


class AxisAttention(nn.Module):
    def __init__(self, dim, heads, axis):
        super().__init__()
        self.axis, self.norm = axis, nn.LayerNorm(dim)
        self.mha = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, x):  # b h w c
        y = x if self.axis == 2 else x.transpose(1, 2)
        b, rows, n, c = y.shape
        z = self.norm(y).reshape(b * rows, n, c)
        z, _ = self.mha(z, z, z, need_weights=False)
        z = z.view(b, rows, n, c)
        return x + (z if self.axis == 2 else z.transpose(1, 2))


class AxialNet(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.row, self.col = nn.Parameter(torch.randn(12, 1, c) * 0.1), nn.Parameter(torch.randn(1, 12, c) * 0.1)
        self.layers = nn.Sequential(AxisAttention(c, 4, 1), AxisAttention(c, 4, 2))

    def forward(self, img):
        x = self.stem(img).permute(0, 2, 3, 1)
        x = x + self.row[: x.size(1)] + self.col[:, : x.size(2)]
        return self.layers(x).mean((1, 2))


with torch.random.fork_rng():
    torch.manual_seed(7)
    model = AxialNet().eval()
inputs = torch.randn(3, 3, 6, 9, generator=torch.Generator().manual_seed(7))
