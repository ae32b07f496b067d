"""Axial attention over an image: along each row, then along each column, the other axis folded into the batch."""

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.e = heads, dim // heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, (k, v) = self.to_q(x), self.to_kv(x).chunk(2, dim=-1)

        def merge_heads(s):
            return s.reshape(b, t, self.heads, self.e).transpose(1, 2).reshape(b * self.heads, t, self.e)

        q, k, v = map(merge_heads, (q, k, v))
        dots = torch.einsum("bie,bje->bij", q, k) * self.e**-0.5
        out = torch.einsum("bij,bje->bie", dots.softmax(dim=-1), v)
        out = out.reshape(b, self.heads, t, self.e).transpose(1, 2).reshape(b, t, d)
        return self.to_out(out)


class AxialBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.rows, self.columns = SelfAttention(dim, heads), SelfAttention(dim, heads)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        b, h, w, d = x.shape
        x = x + self.rows(self.norm1(x).reshape(b * h, w, d)).reshape(b, h, w, d)
        y = self.norm2(x).permute(0, 2, 1, 3).reshape(b * w, h, d)
        return x + self.columns(y).reshape(b, w, h, d).permute(0, 2, 1, 3)


class AxialNet(nn.Module):
    def __init__(self, dim=28, heads=4, size=(5, 9)):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 3, padding=1)
        self.row_pos = nn.Parameter(torch.randn(size[0], 1, dim) * 0.1)
        self.col_pos = nn.Parameter(torch.randn(1, size[1], dim) * 0.1)
        self.blocks = nn.Sequential(AxialBlock(dim, heads), AxialBlock(dim, heads))
        self.to_class = nn.Linear(dim, 6)

    def forward(self, image):
        x = self.stem(image).permute(0, 2, 3, 1) + self.row_pos + self.col_pos
        return self.to_class(self.blocks(x))


with torch.random.fork_rng():
    torch.manual_seed(68)
    model = AxialNet().eval()

inputs = {"image": torch.randn(3, 3, 5, 9, generator=torch.Generator().manual_seed(69))}
