"""Gemma3-like: local layers with a window, a global layer now and then."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def make_masks(n, w):
    d = torch.arange(n)[:, None] - torch.arange(n)[None]
    return {"full_attention": d >= 0, "sliding_attention": (d >= 0) & (d < w)}


class Attn(nn.Module):
    def __init__(self, dim, h, kind):
        super().__init__()
        self.h, self.kind = h, kind
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, masks):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=masks[self.kind])  # fault: AS210
        return self.o(y.transpose(1, 2).flatten(2))


class Hybrid(nn.Module):
    def __init__(self, vocab=65, dim=32, h=4, n_layers=4, window=3, pattern=2):
        super().__init__()
        self.window = window
        self.emb, self.pos = nn.Embedding(vocab, dim), nn.Embedding(64, dim)
        kinds = ["sliding_attention" if (i + 1) % pattern == 0 else "full_attention" for i in range(n_layers)]  # fault: AS210
        self.layers = nn.ModuleList(Attn(dim, h, k) for k in kinds)
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in kinds)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        n = ids.size(1)
        x, masks = self.emb(ids) + self.pos.weight[:n], make_masks(n, self.window)
        for a, l in zip(self.layers, self.ln):
            x = x + a(l(x), masks)
        return self.head(x)


torch.manual_seed(0)
model = Hybrid().eval()
inputs = torch.randint(0, 65, (2, 12), generator=torch.Generator().manual_seed(0))
expect = {"window": [3, None, 3, None], "causal": True}
