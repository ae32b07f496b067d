"""Flamingo-like resampler for long notes: a few learned latents read the tokens and themselves."""
import torch
from torch import nn
import torch.nn.functional as F


class LatentReader(nn.Module):
    def __init__(self, vocab=240, d=40, h=5, n_latents=6, depth=2):
        super().__init__()
        self.h = h
        self.emb, self.pos = nn.Embedding(vocab, d, padding_idx=0), nn.Embedding(64, d)
        self.latents = nn.Parameter(torch.randn(n_latents, d))
        self.layers = nn.ModuleList([nn.ModuleDict({"nl": nn.LayerNorm(d), "nx": nn.LayerNorm(d), "q": nn.Linear(d, d),
                                                    "kv": nn.Linear(d, 2 * d), "o": nn.Linear(d, d)}) for _ in range(depth)])
        self.norm = nn.LayerNorm(d)

    def forward(self, ids):
        b, t = ids.shape
        x = self.emb(ids) + self.pos.weight[:t]
        lat = self.latents.expand(b, -1, -1)
        keep = torch.cat([ids.ne(0), ids.new_ones(b, lat.size(1)).bool()], 1)[:, None, None, :]
        for m in self.layers:
            ln = m["nl"](lat)
            both = torch.cat([m["nx"](x), ln], dim=1)
            q = m["q"](ln).unflatten(-1, (self.h, -1)).transpose(1, 2)
            k, v = (s.unflatten(-1, (self.h, -1)).transpose(1, 2) for s in m["kv"](both).chunk(2, -1))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
            lat = lat + m["o"](y.transpose(1, 2).flatten(2))
        return self.norm(lat)


torch.manual_seed(22)
model = LatentReader().eval()
_ids = torch.randint(1, 240, (3, 16), generator=torch.Generator().manual_seed(22))
_ids[1, 11:] = 0
inputs = (_ids,)
expect = {"padding": "ids pad=0"}
