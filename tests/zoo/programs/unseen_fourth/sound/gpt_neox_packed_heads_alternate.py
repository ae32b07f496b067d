"""Packed projection with q, k, v inside each head; odd layers are local."""
import torch
import torch.nn as nn


class NeoLayer(nn.Module):
    def __init__(self, d, h, window):
        super().__init__()
        self.h, self.window, self.ln = h, window, nn.LayerNorm(d)
        self.query_key_value, self.dense = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer("masked_bias", torch.tensor(-1e9), persistent=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.query_key_value(self.ln(x)).view(b, t, self.h, 3 * d // self.h).transpose(1, 2).chunk(3, -1)
        gap = torch.arange(t)[:, None] - torch.arange(t)[None]
        ok = (gap >= 0) if self.window is None else (gap >= 0) & (gap < self.window)
        w = torch.where(ok, q @ k.transpose(-1, -2) / (d // self.h) ** 0.5, self.masked_bias)
        return x + self.dense((w.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Neo(nn.Module):
    def __init__(self, vocab=67, d=36):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.h = nn.Sequential(*[NeoLayer(d, 3, None if i % 2 == 0 else 5) for i in range(4)])
        self.out = nn.Linear(d, vocab)

    def forward(self, input_ids):
        return self.out(self.h(self.wte(input_ids) + self.wpe.weight[:input_ids.size(1)]))


torch.manual_seed(16)
model = Neo().eval()
inputs = {"input_ids": torch.randint(0, 67, (2, 14), generator=torch.Generator().manual_seed(16))}
expect = {"causal": True, "window": [None, 5, None, 5]}
