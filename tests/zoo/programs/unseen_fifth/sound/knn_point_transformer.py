"""Point transformer layer: vector attention over the k nearest neighbours."""
import torch
import torch.nn as nn


def index_points(points, idx):
    B = points.shape[0]
    return points[torch.arange(B).view(B, 1, 1), idx]


class TransformerBlock(nn.Module):
    def __init__(self, d_points, d_model, k):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d_points, d_model), nn.Linear(d_model, d_points)
        self.fc_delta = nn.Sequential(nn.Linear(3, d_model), nn.ReLU(), nn.Linear(d_model, d_model))
        self.fc_gamma = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, d_model))
        self.w_qs = nn.Linear(d_model, d_model, bias=False)
        self.w_ks = nn.Linear(d_model, d_model, bias=False)
        self.w_vs = nn.Linear(d_model, d_model, bias=False)
        self.k = k

    def forward(self, xyz, features):
        dists = torch.cdist(xyz, xyz)
        knn_idx = dists.argsort()[:, :, :self.k]
        knn_xyz = index_points(xyz, knn_idx)
        pre = features
        x = self.fc1(features)
        q, k, v = self.w_qs(x), index_points(self.w_ks(x), knn_idx), index_points(self.w_vs(x), knn_idx)
        pos_enc = self.fc_delta(xyz[:, :, None] - knn_xyz)
        attn = self.fc_gamma(q[:, :, None] - k + pos_enc)
        attn = torch.softmax(attn / k.size(-1) ** 0.5, dim=-2)
        res = torch.einsum('bmnf,bmnf->bmf', attn, v + pos_enc)
        return self.fc2(res) + pre, attn


class PointSeg(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(3, 16)
        self.t1 = TransformerBlock(16, 24, 5)
        self.head = nn.Linear(16, 4)

    def forward(self, xyz):
        f, _ = self.t1(xyz, torch.relu(self.stem(xyz)))
        return self.head(f)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(57)
        return PointSeg().eval()


inputs = torch.randn(2, 14, 3, generator=torch.Generator().manual_seed(58))
