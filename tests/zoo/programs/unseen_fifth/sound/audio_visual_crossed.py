"""Audio-visual speech enhancement: audio frames attend to lip features."""
import torch
import torch.nn as nn


class CrossModal(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)
        self.heads = heads
        self.scale = (dim // heads) ** -0.5

    def split(self, t):
        return t.reshape(t.shape[0], t.shape[1], self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, audio, video):
        q = self.split(self.q(audio))
        k = self.split(self.k(video))
        v = self.split(self.v(video))
        a = ((q @ k.transpose(2, 3)) * self.scale).softmax(-1)
        return self.proj((a @ v).permute(0, 2, 1, 3).reshape(audio.shape))


class AVNet(nn.Module):
    def __init__(self, a_dim=22, v_dim=14, dim=32, heads=4):
        super().__init__()
        self.a_in = nn.Linear(a_dim, dim)
        self.v_in = nn.Linear(v_dim, dim)
        self.a_pos = nn.Parameter(torch.randn(1, 60, dim) * .02)
        self.v_pos = nn.Parameter(torch.randn(1, 60, dim) * .02)
        self.av = CrossModal(dim, heads)
        self.norm_a, self.norm_v = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mask = nn.Linear(dim, a_dim)

    def forward(self, spec, lips):
        a = self.norm_a(self.a_in(spec) + self.a_pos[:, :spec.size(1)])
        v = self.norm_v(self.v_in(lips) + self.v_pos[:, :lips.size(1)])
        a = a + self.av(a, v)
        return torch.sigmoid(self.mask(a)) * spec


def model():
    with torch.random.fork_rng():
        torch.manual_seed(16)
        return AVNet().eval()


g = torch.Generator().manual_seed(18)
inputs = {"spec": torch.rand(2, 20, 22, generator=g), "lips": torch.randn(2, 5, 14, generator=g)}
