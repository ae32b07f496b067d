"""Dance generator over joint angles, attention written with baddbmm."""
import torch
from torch import nn


class PoseAttention(nn.Module):
    def __init__(self, width=64, heads=2):
        super().__init__()
        self.heads = heads
        self.head_dim = width // heads
        self.scale = self.head_dim ** -0.5
        self.q, self.k, self.v, self.o = [nn.Linear(width, width) for _ in range(4)]

    def forward(self, x):
        B, T, W = x.shape
        f = lambda z: z.view(B, T, self.heads, -1).transpose(1, 2).reshape(B * self.heads, T, -1)
        q, k, v = f(self.q(x)), f(self.k(x)), f(self.v(x))
        logits = torch.bmm(q, k.transpose(1, 2))  # fault: AS301
        y = torch.bmm(logits.softmax(-1), v).view(B, self.heads, T, -1)
        return self.o(y.transpose(1, 2).reshape(B, T, W))


class DanceNet(nn.Module):
    def __init__(self, joints=24, width=64):
        super().__init__()
        self.inp = nn.Linear(joints, width)
        self.pos = nn.Parameter(torch.randn(100, width) * .1)
        self.att = PoseAttention(width)
        self.ln = nn.LayerNorm(width)
        self.out = nn.Linear(width, joints)

    def forward(self, pose):
        h = self.inp(pose) + self.pos[:pose.size(1)]
        return self.out(h + self.att(self.ln(h)))


torch.manual_seed(16)
model = DanceNet().eval()
inputs = {"pose": torch.randn(2, 18, 24, generator=torch.Generator().manual_seed(6))}
expect = {"scale": 32 ** -0.5}
