"""Axial attention: rows and columns take turns as the batch."""
import torch
import torch.nn as nn


class Axis(nn.Module):
    def __init__(self, d, h, size):
        super().__init__()
        self.att = nn.MultiheadAttention(d, h, batch_first=True)
        self.pos = nn.Parameter(torch.randn(size, d) * .1)

    def forward(self, x):
        b, o, s, d = x.shape
        y = x.reshape(b * o, s, d) + self.pos
        return x + self.att(y, y, y, need_weights=False)[0].reshape(b, o, s, d)


class AxialNet(nn.Module):
    def __init__(self, d=24, H=6, W=8):
        super().__init__()
        self.inp = nn.Conv2d(1, d, 1)
        self.row, self.col = Axis(d, 3, W), Axis(d, 2, H)
        self.out = nn.Conv2d(d, 1, 1)

    def forward(self, img):
        x = self.inp(img).permute(0, 2, 3, 1)
        x = self.row(x)
        x = self.col(x.transpose(1, 2)).transpose(1, 2)
        return self.out(x.permute(0, 3, 1, 2))


torch.manual_seed(8)
model = AxialNet().eval()
inputs = torch.randn(2, 1, 6, 8, generator=torch.Generator().manual_seed(8))
