"""Picture classifier of the CPVT kind: a convolution on the grid between two blocks tells places."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, c, h):
        super().__init__()
        self.h, self.n1, self.n2 = h, nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.mlp = nn.Sequential(nn.Linear(c, 2 * c), nn.GELU(), nn.Linear(2 * c, c))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(self.n1(x)).reshape(b, n, 3, self.h, c // self.h).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1) * (c // self.h) ** -0.5).softmax(-1)
        x = x + self.proj((a @ v).transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.n2(x))


class Cpvt(nn.Module):
    def __init__(self, c=24, h=3, classes=7):
        super().__init__()
        self.patches = nn.Conv2d(3, c, 4, 4)
        self.blocks = nn.ModuleList(Block(c, h) for _ in range(2))
        self.pos_block = nn.Conv2d(c, c, 3, 1, 1, groups=c)
        self.head = nn.Linear(c, classes)

    def forward(self, picture):
        grid = self.patches(picture)
        b, c, height, width = grid.shape
        x = grid.flatten(2).transpose(1, 2)
        for at, block in enumerate(self.blocks):
            x = block(x)
            if at == 0:
                grid = x.transpose(1, 2).reshape(b, c, height, width)
                x = (self.pos_block(grid) + grid).flatten(2).transpose(1, 2)
        return self.head(x.mean(1))


with torch.random.fork_rng():
    torch.manual_seed(41)
    model = Cpvt().eval()
inputs = torch.randn(2, 3, 24, 20, generator=torch.Generator().manual_seed(41))
