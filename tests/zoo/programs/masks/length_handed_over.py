"""Words of a page; the last row is a margin."""

import torch
from torch import nn
from torch.nn import functional as F

def real_of(lengths, n):
    return torch.arange(n) < lengths.unsqueeze(1)


class Page(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.word, self.place = nn.Embedding(50, width), nn.Embedding(20, width)
        self.qkv, self.out, self.tag = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Linear(width, 6)

    def forward(self, words, lengths):
        b, n = words.shape
        real = real_of(lengths, n)
        x = self.word(words) + self.place.weight[:n]
        q, k, v = self.qkv(x).view(b, n, 3, 4, -1).permute(2, 0, 3, 1, 4)
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~real[:, None, None], -1e9)
        return self.tag(x + self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1)))


torch.manual_seed(85)
model = Page().eval()
inputs = {"words": torch.randint(0, 50, (3, 9)), "lengths": torch.tensor([9, 4, 6])}
expect = {"padding": "lengths lengths"}
