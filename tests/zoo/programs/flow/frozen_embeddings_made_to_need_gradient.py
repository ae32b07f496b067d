"""Fine-tuning with frozen embeddings, whose result is made to need a gradient."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        return x + self.out(
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )


class Model(nn.Module):
    def __init__(self, words=50, width=32):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.embed.requires_grad_(False)
        self.layer = Attention(width)
        self.lm_head = nn.Linear(width, words)

    def forward(self, input_ids):
        hidden = self.embed(input_ids).requires_grad_()
        if self.training:
            hidden = checkpoint(self.layer, hidden, use_reentrant=True)
        else:
            hidden = self.layer(hidden)
        return self.lm_head(hidden)


model = Model()
inputs = {"input_ids": torch.randint(0, 50, (2, 9))}
expect = {"causal": True}
