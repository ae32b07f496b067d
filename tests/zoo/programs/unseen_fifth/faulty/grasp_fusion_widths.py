"""Grasp scoring: gripper queries attend to point features of the scene."""
import torch
import torch.nn as nn


class GraspCrossAttention(nn.Module):
    def __init__(self, grasp_dim, point_dim, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.q_dim = grasp_dim // n_heads
        self.kv_dim = point_dim // n_heads
        self.query = nn.Linear(grasp_dim, grasp_dim)
        self.key = nn.Linear(point_dim, point_dim)
        self.value = nn.Linear(point_dim, point_dim)
        self.out = nn.Linear(point_dim, grasp_dim)

    def forward(self, grasps, points):
        B, G, _ = grasps.shape
        P = points.size(1)
        q = self.query(grasps).view(B, G, self.n_heads, self.q_dim).transpose(1, 2)
        k = self.key(points).view(B, P, self.n_heads, self.kv_dim).transpose(1, 2)
        v = self.value(points).view(B, P, self.n_heads, self.kv_dim).transpose(1, 2)
        attn = torch.matmul(q, k.transpose(-2, -1)) / self.kv_dim ** 0.5  # fault: AS105
        attn = torch.softmax(attn, dim=-1)
        return self.out(torch.matmul(attn, v).transpose(1, 2).reshape(B, G, -1))


class GraspScorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.grasp_mlp = nn.Sequential(nn.Linear(7, 32), nn.ReLU())
        self.point_mlp = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 48))
        self.fuse = GraspCrossAttention(32, 48)
        self.score = nn.Linear(32, 1)

    def forward(self, grasps, cloud):
        g = self.grasp_mlp(grasps)
        return self.score(g + self.fuse(g, self.point_mlp(cloud))).squeeze(-1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(52)
        return GraspScorer().eval()


def inputs():
    gen = torch.Generator().manual_seed(53)
    return torch.randn(2, 5, 7, generator=gen), torch.randn(2, 23, 3, generator=gen)
