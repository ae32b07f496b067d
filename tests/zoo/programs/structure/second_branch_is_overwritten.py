"""Two attentions over a caption's words, by hand: the result of one is overwritten by the other."""

import torch
from torch import nn
from torch.nn import functional as F


class Words(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.out(y)


class Caption(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.places = nn.Embedding(12, width)
        self.near, self.far = Words(width), Words(width)
        self.norm = nn.LayerNorm(width)

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        y = self.near(x)  # fault: AS903
        y = self.far(x)
        return self.norm(x + y)


torch.manual_seed(6)
model = Caption().eval()
inputs = torch.randint(0, 50, (3, 9))
