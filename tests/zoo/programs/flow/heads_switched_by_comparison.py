"""Text encoder whose heads are switched by a gate on the input."""

import torch
from torch import nn
from torch.nn import functional as F


class SwitchedAttention(nn.Module):
    def __init__(self, width=28, heads=4):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.switch = nn.Linear(width, heads)
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        heads = F.scaled_dot_product_attention(q, k, v)
        on = torch.sigmoid(self.switch(x)).transpose(1, 2).unsqueeze(-1)
        heads = torch.where(on > 0.5, heads, torch.zeros_like(heads))  # fault: AS902
        return self.proj(heads.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, vocab=50, width=28):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, width), nn.Embedding(24, width)
        self.norm, self.attend = nn.LayerNorm(width), SwitchedAttention(width)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
        return x + self.attend(self.norm(x))


torch.manual_seed(4)
model = Encoder().eval()
inputs = {"ids": torch.randint(50, (3, 11))}
