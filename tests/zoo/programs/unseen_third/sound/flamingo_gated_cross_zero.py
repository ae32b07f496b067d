"""Gated cross attention (tanh gate starts at zero) in a language model."""
import torch
import torch.nn as nn


class GatedCross(nn.Module):
    def __init__(self, d, dv, h):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, h, kdim=dv, vdim=dv, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.alpha = nn.Parameter(torch.tensor([0.0]))

    def forward(self, x, media):
        y, _ = self.attn(self.norm(x), media, media, need_weights=False)
        return x + self.alpha.tanh() * y


class Flamingo(nn.Module):
    def __init__(self, vocab=57, d=32, dv=20):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.cross = GatedCross(d, dv, 4)
        self.self_attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.n, self.head = nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids, media):
        t = ids.size(1)
        x = self.cross(self.e(ids) + self.p.weight[:t], media)
        y = self.n(x)
        m = torch.ones(t, t, dtype=torch.bool).triu(1)
        x = x + self.self_attn(y, y, y, attn_mask=m, need_weights=False)[0]
        return self.head(x)


torch.manual_seed(0)
model = Flamingo().eval()
_g = torch.Generator().manual_seed(0)
inputs = {"ids": torch.randint(0, 57, (2, 8), generator=_g), "media": torch.randn(2, 5, 20, generator=_g)}
expect = {"causal": True}
