"""Masked autoencoder: one mask marks tokens to guess, another one marks padding."""

import torch
from torch import nn


class Guesser(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.guess = nn.Parameter(torch.randn(width))
        self.places = nn.Parameter(torch.randn(1, 8, width))
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, patches, mask, pad_mask):
        x = torch.where(mask[..., None], self.guess, patches) + self.places
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(pad_mask[:, None, None] == 1, float("-inf"))
        return x + self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


torch.manual_seed(2)
model = Guesser().eval()
lengths = torch.tensor([8, 4, 6])
inputs = {
    "patches": torch.randn(3, 8, 32),
    "mask": torch.rand(3, 8) < 0.3,
    "pad_mask": (torch.arange(8)[None] >= lengths[:, None]).long(),
}
