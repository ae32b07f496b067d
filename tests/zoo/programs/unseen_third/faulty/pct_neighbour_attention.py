"""Point transformer block: vector attention over the k nearest neighbours of each point."""
import torch
from torch import nn


def index_points(points, idx):
    raw = idx.shape
    flat = idx.reshape(raw[0], -1)
    res = torch.gather(points, 1, flat[..., None].expand(-1, -1, points.size(-1)))
    return res.reshape(*raw, -1)


class PointTransformerBlock(nn.Module):
    def __init__(self, d_points=20, d_model=32, k=6, heads=4):
        super().__init__()
        self.k, self.heads = k, heads
        self.fc1 = nn.Linear(d_points, d_model)
        self.fc2 = nn.Linear(d_model, d_points)
        self.fc_delta = nn.Sequential(nn.Linear(3, d_model), nn.ReLU(), nn.Linear(d_model, d_model))
        self.w_qs = nn.Linear(d_model, d_model, bias=False)
        self.w_ks = nn.Linear(d_model, d_model, bias=False)
        self.w_vs = nn.Linear(d_model, d_model, bias=False)

    def forward(self, xyz, features):
        b, n, _ = xyz.shape
        knn_idx = torch.cdist(xyz, xyz).argsort(dim=-1)[:, :, : self.k]
        pos = self.fc_delta(xyz[:, :, None] - index_points(xyz, knn_idx))
        x = self.fc1(features)
        q = self.w_qs(x).view(b, n, 1, self.heads, -1)
        k = (index_points(self.w_ks(x), knn_idx) + pos).view(b, n, self.k, self.heads, -1)
        v = (index_points(self.w_vs(x), knn_idx) + pos).view(b, n, self.k, self.heads, -1)
        attn = (q * k).sum(-1) / k.shape[-1] ** 0.5  # b n k h
        attn = torch.softmax(attn, dim=-1)  # fault: AS101
        res = torch.einsum("bnkh,bnkhf->bnhf", attn, v).reshape(b, n, -1)
        return self.fc2(res) + features


with torch.random.fork_rng():
    torch.manual_seed(8)
    model = PointTransformerBlock().eval()
_gen = torch.Generator().manual_seed(18)
inputs = (torch.rand(2, 25, 3, generator=_gen), torch.randn(2, 25, 20, generator=_gen))
