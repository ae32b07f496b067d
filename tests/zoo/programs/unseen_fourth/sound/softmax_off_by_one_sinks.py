"""Decoder with a learned sink per head."""
import torch
import torch.nn as nn


class SinkAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.sinks = nn.Parameter(torch.randn(h) * 0.5)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = q @ k.mT * (d // self.h) ** -0.5
        s = s + torch.full((t, t), float("-inf")).triu(1)
        s = torch.cat([s, self.sinks.view(1, -1, 1, 1).expand(b, -1, t, 1)], -1)
        p = s.softmax(-1)[..., :-1]
        return self.o((p @ v).transpose(1, 2).reshape(b, t, d))


class SinkLM(nn.Module):
    def __init__(self, vocab=64, d=32):
        super().__init__()
        self.e, self.p = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.l = nn.ModuleList([SinkAttention(d) for _ in range(2)])
        self.h = nn.Linear(d, vocab)

    def forward(self, idx):
        x = self.e(idx) + self.p.weight[:idx.size(1)]
        for l in self.l:
            x = x + l(nn.functional.rms_norm(x, x.shape[-1:]))
        return self.h(x)


torch.manual_seed(4)
model = SinkLM().eval()
expect = {"causal": True}
