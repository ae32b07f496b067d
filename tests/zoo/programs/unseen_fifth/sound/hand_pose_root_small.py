"""Hand pose lifter: joints attend to each other, the wrist gets a head start."""
import torch
import torch.nn as nn


class JointAttention(nn.Module):
    def __init__(self, d, heads, root_bonus=0.5):
        super().__init__()
        self.heads, self.root_bonus = heads, root_bonus
        self.to_qkv = nn.Linear(d, d * 3)
        self.to_out = nn.Linear(d, d)

    def forward(self, x):
        B, J, d = x.shape
        q, k, v = [t.view(B, J, self.heads, -1).permute(0, 2, 1, 3) for t in self.to_qkv(x).chunk(3, 2)]
        s = q @ k.permute(0, 1, 3, 2) / (d // self.heads) ** 0.5
        s[..., 0] += self.root_bonus
        return self.to_out((s.softmax(3) @ v).permute(0, 2, 1, 3).flatten(2))


class HandLifter(nn.Module):
    def __init__(self, joints=21, d=30, heads=3, depth=2):
        super().__init__()
        self.inp = nn.Linear(2, d)
        self.joint = nn.Parameter(torch.randn(joints, d) * .1)
        self.att = nn.ModuleList([JointAttention(d, heads) for _ in range(depth)])
        self.ff = nn.ModuleList([nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d)) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(depth)])
        self.xyz = nn.Linear(d, 3)

    def forward(self, uv):
        x = self.inp(uv) + self.joint
        for a, f, n in zip(self.att, self.ff, self.ln):
            x = x + a(n(x))
            x = x + f(x)
        return self.xyz(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return HandLifter().eval()


inputs = torch.rand(2, 21, 2, generator=torch.Generator().manual_seed(6))
