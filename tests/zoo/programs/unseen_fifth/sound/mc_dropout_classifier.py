"""Uncertainty-aware toxicity classifier: dropout stays on at prediction time."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MCAttention(nn.Module):
    def __init__(self, d, h, p):
        super().__init__()
        self.h, self.p = h, p
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        w = F.softmax(q @ k.mT * (d // self.h) ** -0.5, -1)
        w = F.dropout(w, self.p, training=True)
        return self.o((w @ v).transpose(1, 2).reshape(b, t, d))


class ToxicityMC(nn.Module):
    def __init__(self, vocab=190, d=36, h=3, p=0.1):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(60, d)
        self.attn, self.ln, self.out = MCAttention(d, h, p), nn.LayerNorm(d), nn.Linear(d, 2)

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[: ids.size(1)]
        return self.out(self.ln(x + self.attn(x)).mean(1))


with torch.random.fork_rng():
    torch.manual_seed(12)
    model = ToxicityMC().eval()
inputs = (torch.randint(0, 190, (3, 13), generator=torch.Generator().manual_seed(12)),)
expect = {"dropout": "on in eval"}
