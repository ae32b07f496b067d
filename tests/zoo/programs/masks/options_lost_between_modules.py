"""Speaker turns: one pool of options goes down to whoever needs it."""

import torch
from torch import nn
from torch.nn import functional as F


class Attend(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, *, keep=None, **_):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        keep = None if keep is None else keep[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = Attend(width, heads)
        self.mix = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, **options):
        x = x + self.attend(self.first(x))  # fault: AS202|AS208
        return x + self.mix(self.second(x))


class Stack(nn.Module):
    def __init__(self, width, heads, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))

    def forward(self, x, **options):
        for block in self.blocks:
            x = block(x, **options)
        return x


class Turns(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.front, self.places = nn.Linear(10, width), nn.Parameter(torch.randn(40, width) * 0.1)
        self.stack = Stack(width, 4, 2)
        self.head = nn.Linear(width, 4)

    def forward(self, frames, keep):
        x = self.front(frames) + self.places[: frames.shape[1]]
        return self.head(self.stack(x, keep=keep, speed=1.0))


torch.manual_seed(62)
model = Turns().eval()
inputs = {
    "frames": torch.randn(3, 9, 10),
    "keep": torch.arange(9)[None] < torch.tensor([9, 5, 7])[:, None],
}
expect = {"padding": "keep keep"}
