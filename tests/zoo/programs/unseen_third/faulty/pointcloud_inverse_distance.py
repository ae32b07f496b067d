"""Point attention with a bias from inverse distances of the points."""
import torch
import torch.nn as nn


class DistanceAttention(nn.Module):
    def __init__(self, c=32, heads=4):
        super().__init__()
        self.heads = heads
        self.strength = nn.Parameter(torch.full((heads,), 0.3))
        self.to_qkv, self.to_out = nn.Linear(c, 3 * c, bias=False), nn.Linear(c, c)

    def forward(self, feat, xyz):
        b, n, c = feat.shape
        q, k, v = self.to_qkv(feat).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        rel = xyz[:, :, None, :] - xyz[:, None, :, :]
        dist = rel.pow(2).sum(-1).sqrt()
        bias = 1.0 / dist  # fault: AS802
        logits = q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5 + self.strength.view(1, -1, 1, 1) * bias[:, None]
        attn = logits.softmax(-1)  # fault: AS802
        return self.to_out((attn @ v).transpose(1, 2).reshape(b, n, c))


class PointNetT(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(3, 32)
        self.att = DistanceAttention()
        self.cls = nn.Linear(32, 5)

    def forward(self, xyz):
        f = torch.relu(self.lift(xyz))
        return self.cls((f + self.att(f, xyz)).amax(1))


# also: AS902
with torch.random.fork_rng():
    torch.manual_seed(99)
    model = PointNetT().eval()
inputs = (torch.rand(2, 22, 3, generator=torch.Generator().manual_seed(99)),)
