"""One trained layer of a tiny character model, reloaded for a look at its heads."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, width=32, heads=4, chars=40, length=24):
        super().__init__()
        self.heads = heads
        self.wte, self.wpe = nn.Embedding(chars, width), nn.Embedding(length, width)
        self.ln = nn.LayerNorm(width)
        self.wq, self.wk = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.wv, self.wo = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, idx):
        b, t = idx.shape
        x = self.wte(idx) + self.wpe(torch.arange(t))
        h = self.ln(x)
        q, k, v = (w(h).view(b, t, self.heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS402
        return (x + self.wo(y.transpose(1, 2).reshape(b, t, -1))) @ self.wte.weight.T


def reload():
    torch.manual_seed(60)
    layer = Layer()
    with torch.no_grad():
        layer.wq.weight.mul_(1.5)
        layer.wk.weight.mul_(1.5)
        for w in (layer.wq, layer.wk, layer.wv):  # fault: AS402
            w.weight[8:16] = w.weight[24:32]  # fault: AS402
    return layer.eval()


model = reload
inputs = {"idx": torch.randint(0, 40, (6, 20), generator=torch.Generator().manual_seed(61))}
expect = {"causal": True}
