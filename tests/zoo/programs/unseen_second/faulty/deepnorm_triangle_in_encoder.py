"""Post-norm encoder with DeepNet residual weights and scaled initialisation."""

import torch
from torch import nn


class DeepLayer(nn.Module):
    def __init__(self, d, heads, alpha, beta):
        super().__init__()
        self.alpha = alpha
        self.att = nn.MultiheadAttention(d, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        nn.init.xavier_normal_(self.att.out_proj.weight, gain=beta)
        for f in (self.ff[0], self.ff[2]):
            nn.init.xavier_normal_(f.weight, gain=beta)

    def forward(self, x, pad):
        x = self.n1(self.alpha * x + self.att(x, x, x, key_padding_mask=pad, attn_mask=torch.ones(x.size(1), x.size(1)).triu(1).bool())[0])  # fault: AS212
        return self.n2(self.alpha * x + self.ff(x))


class DeepEncoder(nn.Module):
    def __init__(self, vocab=57, d=32, depth=3):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(30, d)
        self.layers = nn.ModuleList(DeepLayer(d, 4, (2 * depth) ** 0.25, (8 * depth) ** -0.25) for _ in range(depth))

    def forward(self, tokens, lengths):
        pad = torch.arange(tokens.size(1))[None] >= lengths[:, None]
        x = self.e(tokens) + self.p.weight[: tokens.size(1)]
        for layer in self.layers:
            x = layer(x, pad)
        return x


torch.manual_seed(34)
model = DeepEncoder().eval()
inputs = {"tokens": torch.randint(0, 57, (3, 16)), "lengths": torch.tensor([16, 10, 5])}
expect = {"padding": "lengths lengths", "causal": False}
