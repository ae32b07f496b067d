"""Mistral 7B clone shrunk to unit-test size."""
import torch
import torch.nn as nn
import torch.nn.functional as F

DIM, HEADS, WINDOW, VOCAB = 32, 4, 4, 65


def sliding_mask(n, w, device=None):
    i = torch.arange(n, device=device)
    dist = i[:, None] - i[None, :]
    return (dist >= 0) & (dist < w)


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.wqkv, self.wo = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x, mask):
        b, n, _ = x.shape
        q, k, v = self.wqkv(x).reshape(b, n, 3, HEADS, -1).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(o.transpose(1, 2).reshape(b, n, DIM))


class Mistral(nn.Module):
    def __init__(self, sliding_window=WINDOW):
        super().__init__()
        self.w = sliding_window
        self.emb = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Embedding(64, DIM)
        self.attn = nn.ModuleList([Attn() for _ in range(2)])
        self.norms = nn.ModuleList([nn.RMSNorm(DIM) for _ in range(3)])
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids):
        n = ids.size(1)
        x = self.emb(ids) + self.pos.weight[:n]
        m = sliding_mask(n, self.w, ids.device)
        for a, nm in zip(self.attn, self.norms):
            x = x + a(nm(x), m)
        return self.head(self.norms[-1](x))


torch.manual_seed(8)
model = Mistral().eval()
inputs = torch.randint(0, VOCAB, (2, 13), generator=torch.Generator().manual_seed(8))
expect = {"causal": True, "window": 4}
