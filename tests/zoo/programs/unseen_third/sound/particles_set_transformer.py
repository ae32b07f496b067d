"""Kaggle particle-physics model: set transformer without positions, pooling by a learned seed."""
import torch
import torch.nn as nn


class Pool(nn.Module):
    def __init__(self, d=32, h=4, seeds=2):
        super().__init__()
        self.S, self.mha, self.ff = nn.Parameter(torch.randn(1, seeds, d)), nn.MultiheadAttention(d, h, batch_first=True), nn.Linear(d, d)

    def forward(self, x, pad):
        s = self.S.repeat(x.size(0), 1, 1)
        h = s + self.mha(s, x, x, key_padding_mask=pad)[0]
        return h + torch.relu(self.ff(h))


class Jets(nn.Module):
    def __init__(self, feats=4, d=32):
        super().__init__()
        self.emb, self.enc = nn.Linear(feats, d), nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, batch_first=True)
        self.pool, self.out = Pool(d), nn.Linear(2 * d, 3)

    def forward(self, particles, mask):
        x = self.enc(self.emb(particles), src_key_padding_mask=mask)
        return self.out(self.pool(x, mask).flatten(1))


with torch.random.fork_rng():
    torch.manual_seed(68)
    model = Jets().eval()
inputs = {"particles": torch.randn(3, 13, 4, generator=torch.Generator().manual_seed(68)), "mask": torch.arange(13)[None] >= torch.tensor([13, 6, 10])[:, None]}
expect = {"padding": "mask drop", "positions": False}
