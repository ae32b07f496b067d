"""Self-distillation: a student encoder and a teacher copy that gets no gradient."""

import copy

import torch
from torch import nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, features=12, dim=28, heads=4, places=32):
        super().__init__()
        self.heads = heads
        self.inp = nn.Linear(features, dim)
        self.pos = nn.Parameter(torch.randn(places, dim) * 0.5)
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        x = self.inp(x) + self.pos[: x.shape[1]]
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1)
        )
        return x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Distiller(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = Encoder()
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.predictor = nn.Linear(28, 28)

    def forward(self, x):
        with torch.no_grad():
            target = self.teacher(x)
        guess = self.predictor(self.student(x))
        return 1 - F.cosine_similarity(guess, target, dim=-1)


with torch.random.fork_rng():
    torch.manual_seed(156)
    model = Distiller().train()

inputs = {"x": torch.randn(3, 14, 12, generator=torch.Generator().manual_seed(156))}
