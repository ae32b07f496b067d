"""Object queries with positions added to queries and keys only."""
import torch
import torch.nn as nn


class QueryLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.sa, self.ca = nn.MultiheadAttention(d, h), nn.MultiheadAttention(d, h)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, tgt, mem, pos, qpos, pad):
        q = k = tgt + qpos
        tgt = self.n1(tgt + self.sa(q, k, tgt)[0])
        return self.n2(tgt + self.ca(tgt + qpos, mem + pos, mem, key_padding_mask=pad)[0])


class Detector(nn.Module):
    def __init__(self, d=32, n=6):
        super().__init__()
        self.bb = nn.Conv2d(3, d, 8, 8)
        self.pos = nn.Parameter(torch.rand(24, 1, d))
        self.qpos, self.start = nn.Embedding(n, d), nn.Embedding(n, d)
        self.layers = nn.ModuleList([QueryLayer(d, 4) for _ in range(2)])
        self.box = nn.Linear(d, 4)

    def forward(self, images, outside):
        m = self.bb(images).flatten(2).permute(2, 0, 1)
        B = m.size(1)
        qp, t = self.qpos.weight[:, None].expand(-1, B, -1), self.start.weight[:, None].expand(-1, B, -1)
        for l in self.layers:
            t = l(t, m, self.pos, qp, outside.flatten(1))
        return self.box(t.transpose(0, 1)).sigmoid()


torch.manual_seed(14)
model = Detector().eval()
_o = torch.zeros(2, 4, 6, dtype=torch.bool)
_o[1, :, 4:] = True
inputs = {"images": torch.randn(2, 3, 32, 48, generator=torch.Generator().manual_seed(14)), "outside": _o}
expect = {"padding": "outside drop"}
# note: AS501
