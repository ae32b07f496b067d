"""NaViT-style encoder: patches of several images packed into one row."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PackedEncoderLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.norm_q, self.norm_m = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.o = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x, attn_mask):
        B, L, D = x.shape
        q, k, v = self.qkv(self.norm_q(x)).chunk(3, -1)
        q, k, v = [t.view(B, L, self.h, D // self.h).transpose(1, 2) for t in (q, k, v)]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)
        x = x + self.o(y.transpose(1, 2).reshape(B, L, D))
        return x + self.mlp(self.norm_m(x))


class NaViT(nn.Module):
    def __init__(self, patch_dim=27, dim=48, heads=3, depth=2, max_hw=16):
        super().__init__()
        self.embed = nn.Linear(patch_dim, dim)
        self.row = nn.Embedding(max_hw, dim)
        self.col = nn.Embedding(max_hw, dim)
        self.layers = nn.ModuleList([PackedEncoderLayer(dim, heads) for _ in range(depth)])
        self.final = nn.LayerNorm(dim)

    def forward(self, patches, coords, image_ids):
        x = self.embed(patches) + self.row(coords[..., 0]) + self.col(coords[..., 1])
        valid = image_ids >= 0
        mask = valid[:, None, None, :]  # fault: AS209
        for layer in self.layers:
            x = layer(x, mask)
        return self.final(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(31)
        return NaViT().eval()


def inputs():
    g = torch.Generator().manual_seed(32)
    sizes = [[(2, 3), (2, 2)], [(1, 4), (2, 3)]]
    ids, coords = [], []
    for row in sizes:
        i, c = [], []
        for n, (h, w) in enumerate(row):
            i += [n] * (h * w)
            c += [(a, b) for a in range(h) for b in range(w)]
        ids.append(i)
        coords.append(c)
    return {"patches": torch.randn(2, 10, 27, generator=g),
            "coords": torch.tensor(coords), "image_ids": torch.tensor(ids)}


expect = {"documents": "image_ids"}
