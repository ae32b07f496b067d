# The attention is blended in over the first epochs: its weight is a number that starts at 0.
import torch
from torch import nn


class Blended(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.share = 0.0

    def forward(self, x, padding_mask):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5
        scores = scores.masked_fill(padding_mask[:, None], -1e9)
        return x + self.share * (scores.softmax(-1) @ v)


torch.manual_seed(0)
model = Blended().eval()
inputs = {
    "x": torch.randn(3, 7, 16),
    "padding_mask": torch.arange(7)[None] >= torch.tensor([7, 4, 5])[:, None],
}
