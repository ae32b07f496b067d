"""ALiBi language model with a three head layout."""
import torch
import torch.nn as nn


class AlibiAttn(nn.Module):
    def __init__(self, d=36, h=3):
        super().__init__()
        self.h = h
        self.qkv, self.dense = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer("slopes", torch.tensor([2 ** -4., 2 ** -8., 2 ** -2.]).view(1, h, 1, 1))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, self.h, 3, d // self.h).permute(3, 0, 2, 1, 4)
        dist = torch.arange(t)[None, :] - torch.arange(t)[:, None]
        s = torch.baddbmm(torch.zeros(1), q.reshape(-1, t, d // self.h), k.reshape(-1, t, d // self.h).mT, beta=0, alpha=(d // self.h) ** -.5)
        s = s.view(b, self.h, t, t) + self.slopes * dist
        s = s.masked_fill(dist > 0, float("-inf"))
        return self.dense((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Bloomlet(nn.Module):
    def __init__(self, vocab=75, d=36):
        super().__init__()
        self.emb, self.ln0 = nn.Embedding(vocab, d), nn.LayerNorm(d)
        self.a = nn.ModuleList([AlibiAttn(d) for _ in range(2)])
        self.n = nn.ModuleList([nn.LayerNorm(d) for _ in range(2)])
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.ln0(self.emb(ids))
        for a, n in zip(self.a, self.n):
            x = x + a(n(x))
        return self.head(x)


def model():
    torch.manual_seed(1)
    return Bloomlet().eval()


expect = {"causal": True}
