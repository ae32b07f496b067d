"""Masked-language-model encoder built on the fused kernel."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v)
        x = self.n1(x + self.out(a.transpose(1, 2).reshape(b, n, d)))
        return self.n2(x + self.down(F.gelu(self.up(x))))


class MaskedLM(nn.Module):
    def __init__(self, vocab=68, dim=36, heads=6, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(30, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.decoder = nn.Linear(dim, vocab)

    def forward(self, input_ids):
        x = self.embed(input_ids) + self.pos(torch.arange(input_ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.decoder(x)


with torch.random.fork_rng():
    torch.manual_seed(59)
    model = MaskedLM().eval()

inputs = {"input_ids": torch.randint(0, 68, (3, 13), generator=torch.Generator().manual_seed(59))}
expect = {"causal": False}
