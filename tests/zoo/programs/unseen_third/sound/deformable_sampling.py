"""Deformable attention (DETR): weights come from the query alone, values are sampled at predicted places."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DeformableAttention(nn.Module):
    def __init__(self, d=32, h=4, points=3):
        super().__init__()
        self.h, self.p = h, points
        self.sampling_offsets, self.attention_weights = nn.Linear(d, h * points * 2), nn.Linear(d, h * points)
        self.value_proj, self.output_proj = nn.Linear(d, d), nn.Linear(d, d)
        nn.init.zeros_(self.sampling_offsets.weight)

    def forward(self, query, ref, feat, shape):
        b, q, d = query.shape
        H, W = shape
        value = self.value_proj(feat).view(b, H, W, self.h, -1).permute(0, 3, 4, 1, 2).flatten(0, 1)
        off = self.sampling_offsets(query).view(b, q, self.h, self.p, 2) / torch.tensor([W, H])
        w = self.attention_weights(query).view(b, q, self.h, self.p).softmax(-1)
        grid = 2 * (ref[:, :, None, None] + off) - 1
        s = F.grid_sample(value, grid.transpose(1, 2).flatten(0, 1), align_corners=False)
        y = (s * w.transpose(1, 2).flatten(0, 1).unsqueeze(1)).sum(-1)
        return self.output_proj(y.view(b, d, q).mT)


class Head(nn.Module):
    def __init__(self, d=32, n=6):
        super().__init__()
        self.query, self.ref, self.att, self.norm, self.box = nn.Embedding(n, d), nn.Linear(d, 2), DeformableAttention(d), nn.LayerNorm(d), nn.Linear(d, 4)

    def forward(self, feat):
        b, c, h, w = feat.shape
        q = self.query.weight.expand(b, -1, -1)
        return self.box(self.norm(q + self.att(q, self.ref(q).sigmoid(), feat.flatten(2).mT, (h, w)))).sigmoid()


with torch.random.fork_rng():
    torch.manual_seed(54)
    model = Head().eval()
inputs = torch.randn(2, 32, 5, 6, generator=torch.Generator().manual_seed(54))
