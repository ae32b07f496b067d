"""Small local model: what a layer sees is said once, in the config."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class LocalConfig:
    vocab_size: int = 58
    hidden_size: int = 32
    num_attention_heads: int = 4
    num_hidden_layers: int = 2
    sliding_window: int = 4


class LocalMask(nn.Module):
    def __init__(self, window=None):
        super().__init__()
        self.window = window

    def forward(self, n):
        i = torch.arange(n)
        back = i[:, None] - i[None, :]
        mask = back >= 0
        if self.window is not None:
            mask = mask & (back < self.window)
        return mask


class LocalAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.num_attention_heads
        self.qkv = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.out = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(y.transpose(1, 2).reshape(b, n, d))


class LocalModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed, self.place = nn.Embedding(config.vocab_size, config.hidden_size), nn.Embedding(40, config.hidden_size)
        self.mask = LocalMask(config.sliding_window)
        self.layers = nn.ModuleList(LocalAttention(config) for _ in range(config.num_hidden_layers))
        self.head = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.place.weight[: input_ids.shape[1]]
        mask = self.mask(input_ids.shape[1])
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


torch.manual_seed(76)
model = LocalModel(LocalConfig()).eval()
inputs = {"input_ids": torch.randint(0, 58, (2, 12))}
expect = {"causal": True}
