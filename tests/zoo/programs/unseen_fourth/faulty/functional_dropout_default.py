"""Recommender with target attention over the click history."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class HistoryAttention(nn.Module):
    def __init__(self, d=24, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, target, history, mask):
        b, n, d = history.shape
        q = self.q(target).view(b, 1, self.heads, -1).transpose(1, 2)
        k = self.k(history).view(b, n, self.heads, -1).transpose(1, 2)
        v = self.v(history).view(b, n, self.heads, -1).transpose(1, 2)
        s = (q @ k.transpose(-1, -2)) / (d // self.heads) ** 0.5
        p = torch.softmax(s.masked_fill(~mask[:, None, None], -1e9), -1)
        p = F.dropout(p, 0.2)  # fault: AS701
        return (p @ v).transpose(1, 2).reshape(b, d)


class CTR(nn.Module):
    def __init__(self, items=200, d=24):
        super().__init__()
        self.item = nn.Embedding(items, d, padding_idx=0)
        self.att = HistoryAttention(d)
        self.mlp = nn.Sequential(nn.Linear(2 * d, 16), nn.PReLU(), nn.Linear(16, 1))

    def forward(self, target_item, hist):
        t, h = self.item(target_item), self.item(hist)
        return self.mlp(torch.cat([t, self.att(t, h, hist > 0)], -1)).sigmoid().squeeze(-1)


torch.manual_seed(71)
model = CTR().eval()
_g = torch.Generator().manual_seed(71)
_h = torch.randint(1, 200, (4, 9), generator=_g)
_h[1, 5:] = 0
inputs = {"target_item": torch.randint(1, 200, (4,), generator=_g), "hist": _h}
# note: AS501
