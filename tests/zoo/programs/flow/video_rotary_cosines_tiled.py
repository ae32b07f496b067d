"""Video tokens turned by frame, row and column; the block turns q and k and hands them to a kernel."""

import torch
from torch import nn
from torch.nn import functional as F


def grid_angles(frames, rows, columns, width):
    """Return (tokens, width / 2): a third of the pairs for each axis."""
    part = width // 6
    rate = 1.0 / 50.0 ** (torch.arange(part) / part)
    places = torch.cartesian_prod(*(torch.arange(size).float() for size in (frames, rows, columns)))
    return (places[..., None] * rate).flatten(1)


class VideoBlock(nn.Module):
    def __init__(self, width=72, heads=3, grid=(2, 3, 4)):
        super().__init__()
        self.heads, self.grid = heads, grid
        self.norm = nn.LayerNorm(width)
        self.q, self.k, self.v, self.proj = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        b, n, c = x.shape
        split = (b, n, self.heads, c // self.heads)
        y = self.norm(x)
        q, k, v = (f(y).view(split).transpose(1, 2) for f in (self.q, self.k, self.v))
        angle = grid_angles(*self.grid, split[-1])
        cos = angle.cos().tile(2)  # fault: AS503
        sin = torch.stack((angle.sin(), angle.sin()), -1).flatten(-2)
        turned = []
        for each in (q, k):
            a, b_ = each.unflatten(-1, (-1, 2)).unbind(-1)
            turned.append(each * cos + torch.stack((-b_, a), -1).flatten(-2) * sin)
        return x + self.proj(F.scaled_dot_product_attention(*turned, v).transpose(1, 2).reshape(b, n, c))


with torch.random.fork_rng():
    torch.manual_seed(12)
    model = VideoBlock().eval()
inputs = torch.randn(2, 24, 72, generator=torch.Generator().manual_seed(12))
