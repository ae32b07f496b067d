"""nn.MultiheadAttention with a learned extra key and a zero key."""

import torch
from torch import nn


class Extra(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.place = nn.Embedding(50, 30), nn.Embedding(20, 30)
        self.mha = nn.MultiheadAttention(30, 3, add_bias_kv=True, add_zero_attn=True, batch_first=True)
        self.norm = nn.LayerNorm(30)

    def forward(self, tokens, pad):
        x = self.word(tokens) + self.place(torch.arange(tokens.size(1)))
        y, _ = self.mha(x, x, x, key_padding_mask=pad, need_weights=False)
        return self.norm(x + y)


torch.manual_seed(5)
model = Extra().eval()
inputs = {"tokens": torch.randint(0, 50, (4, 11)), "pad": torch.arange(11)[None] >= torch.tensor([[11], [5], [8], [2]])}
expect = {"padding": "pad drop"}
