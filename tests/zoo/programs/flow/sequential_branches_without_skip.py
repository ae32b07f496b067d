"""Image encoder of nested Sequentials; a helper puts each branch into its skip."""

import torch
from torch import nn
from torch.nn import functional as F


class Skip(nn.Module):
    def __init__(self, *branch):
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x):
        return x + self.branch(x)


class Heads(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.count = count
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (self.count, -1)).transpose(1, 2) for t in self.into(x).chunk(3, -1)
        )
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Places(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, count, width) * 0.3)

    def forward(self, x):
        return x + self.table[:, : x.shape[1]]


def block(width):
    mixing = nn.Sequential(nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width))
    return nn.Sequential(
        nn.Sequential(nn.LayerNorm(width), Heads(width, 4)),  # fault: AS904
        Skip(nn.LayerNorm(width), mixing),
    )


torch.manual_seed(23)
model = nn.Sequential(
    nn.Linear(12, 24), Places(30, 24), *(block(24) for _ in range(3)), nn.LayerNorm(24)
).eval()
inputs = torch.randn(2, 18, 12, generator=torch.Generator().manual_seed(23))
