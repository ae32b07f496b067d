"""Translation layer that returns source-to-target alignments."""
import torch
import torch.nn as nn


class AlignLayer(nn.Module):
    def __init__(self, d=28, h=2):
        super().__init__()
        self.h = h
        self.wq, self.wk, self.wv, self.wo = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, tgt, src):
        b, n, d = tgt.shape
        sp = lambda z: z.view(b, -1, self.h, d // self.h).transpose(1, 2)
        s = sp(self.wq(tgt)) @ sp(self.wk(src)).mT * (d // self.h) ** -.5
        attn_weights = s.softmax(-1)
        out = self.wo((attn_weights @ sp(self.wv(src))).transpose(1, 2).reshape(b, n, d))
        attn_weights = s.softmax(-2)  # fault: AS803
        return out, attn_weights


class Aligner(nn.Module):
    def __init__(self, d=28):
        super().__init__()
        self.src, self.tgt = nn.Embedding(70, d), nn.Embedding(70, d)
        self.ps, self.pt = nn.Embedding(30, d), nn.Embedding(30, d)
        self.layer = AlignLayer(d)
        self.f = nn.Linear(d, 70)

    def forward(self, src, tgt):
        s = self.src(src) + self.ps.weight[:src.size(1)]
        t = self.tgt(tgt) + self.pt.weight[:tgt.size(1)]
        y, w = self.layer(t, s)
        return self.f(t + y), w


torch.manual_seed(18)
model = Aligner().eval()
_g = torch.Generator().manual_seed(18)
inputs = {"src": torch.randint(0, 70, (2, 12), generator=_g), "tgt": torch.randint(0, 70, (2, 8), generator=_g)}
