"""Small LM made from Sequential pieces."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalAttn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.qkv, self.o = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = [t.view(b, n, self.h, -1).transpose(1, 2) for t in self.qkv(x).split(d, -1)]
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return x + self.fn(x)


class LM(nn.Module):
    def __init__(self, vocab=61, d=32, h=4, depth=3):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        layers = []
        for _ in range(depth):
            layers += [
                nn.Sequential(nn.LayerNorm(d), CausalAttn(d, h)),  # fault: AS904
                Residual(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 64), nn.GELU(), nn.Linear(64, d))),
            ]
        self.net = nn.Sequential(*layers, nn.LayerNorm(d))  # fault: AS904
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        return self.head(self.net(self.emb(ids) + self.pos.weight[: ids.size(1)]))


torch.manual_seed(0)
model = LM().eval()
