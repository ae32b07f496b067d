"""Invariant point attention (trimmed): scalar scores plus squared distances of points, three terms share the scale."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class IPA(nn.Module):
    def __init__(self, c=32, c_z=8, heads=4, qk_pts=3):
        super().__init__()
        self.h, self.d, self.p = heads, c // heads, qk_pts
        self.q, self.kv = nn.Linear(c, c), nn.Linear(c, 2 * c)
        self.q_pts, self.k_pts = nn.Linear(c, heads * qk_pts * 3), nn.Linear(c, heads * qk_pts * 3)
        self.b, self.head_weights = nn.Linear(c_z, heads), nn.Parameter(torch.full((heads,), 0.541324854612918))
        self.out = nn.Linear(c + heads * c_z, c)

    def forward(self, s, z, trans):
        B, N, C = s.shape
        q = self.q(s).view(B, N, self.h, self.d)
        k, v = self.kv(s).view(B, N, self.h, 2 * self.d).split(self.d, -1)
        a = torch.einsum("bihd,bjhd->bhij", q, k) * math.sqrt(1.0 / (3 * self.d))
        a = a + math.sqrt(1.0 / 3) * self.b(z).permute(0, 3, 1, 2)
        qp = self.q_pts(s).view(B, N, self.h, self.p, 3) + trans[:, :, None, None]
        kp = self.k_pts(s).view(B, N, self.h, self.p, 3) + trans[:, :, None, None]
        d2 = (qp[:, :, None] - kp[:, None]).pow(2).sum((-1, -2))
        w = F.softplus(self.head_weights) * math.sqrt(1.0 / (3 * (self.p * 9.0 / 2)))
        a = torch.softmax(a - 0.5 * (d2 * w).permute(0, 3, 1, 2), dim=-1)
        o = torch.einsum("bhij,bjhd->bihd", a, v).flatten(2)
        oz = torch.einsum("bhij,bijc->bihc", a, z).flatten(2)
        return s + self.out(torch.cat([o, oz], -1))


with torch.random.fork_rng():
    torch.manual_seed(35)
    model = IPA().eval()
_g = torch.Generator().manual_seed(35)
inputs = {"s": torch.randn(2, 10, 32, generator=_g), "z": torch.randn(2, 10, 10, 8, generator=_g), "trans": torch.randn(2, 10, 3, generator=_g)}
