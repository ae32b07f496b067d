"""Padding mask broadcasting; batch of four, four heads."""
import torch
import torch.nn as nn


class PadAttention(nn.Module):
    def __init__(self, hidden=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(hidden, hidden * 3)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x, mask):
        """mask: (batch, length), 1 = token"""
        bs, length, hidden = x.shape
        q, k, v = self.qkv(x).reshape(bs, length, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (hidden // self.n_heads) ** 0.5
        scores = scores.masked_fill(mask[:, None, None] == 0, -1e9)
        probs = scores.softmax(dim=-1)
        return self.out((probs @ v).transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = PadAttention().eval()
inputs = {
    "x": torch.randn(4, 9, 32, generator=torch.Generator().manual_seed(0)),
    "mask": (torch.arange(9)[None] < torch.tensor([9, 4, 6, 7])[:, None]).long(),
}
expect = {"padding": "mask keep"}
