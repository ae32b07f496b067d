"""Click sequence encoder, layers take whatever keyword arguments the trainer sends."""
import torch
import torch.nn as nn


class Layer(nn.Module):
    def __init__(self, d, h, **_):
        super().__init__()
        self.att = nn.MultiheadAttention(d, h, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def forward(self, x, key_padding_mask=None, **unused):
        x = self.n1(x + self.att(x, x, x, key_padding_mask=key_padding_mask, need_weights=False)[0])
        return self.n2(x + self.ff(x))


class Encoder(nn.Module):
    def __init__(self, n=90, d=32, h=4, **cfg):
        super().__init__()
        self.item, self.pos = nn.Embedding(n, d, padding_idx=0), nn.Embedding(30, d)
        self.layers = nn.ModuleList([Layer(d, h, **cfg) for _ in range(cfg.get("depth", 2))])

    def forward(self, clicks, key_padding_mask):
        x = self.item(clicks) + self.pos.weight[: clicks.size(1)]
        for layer in self.layers:
            x = layer(x, key_padding_mask=key_padding_mask)
        return x


with torch.random.fork_rng():
    torch.manual_seed(112)
    model = Encoder(dropout=0.1).eval()
_c = torch.randint(1, 90, (3, 13), generator=torch.Generator().manual_seed(112))
_c[0, 9:] = 0
_c[2, 6:] = 0
inputs = {"clicks": _c, "key_padding_mask": _c == 0}
