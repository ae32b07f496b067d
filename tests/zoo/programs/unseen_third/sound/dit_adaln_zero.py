"""DiT at the start of training: adaLN-zero, all gates are zero."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DiTBlock(nn.Module):
    def __init__(self, d=40, h=4):
        super().__init__()
        self.h = h
        self.n1, self.n2 = nn.LayerNorm(d, elementwise_affine=False), nn.LayerNorm(d, elementwise_affine=False)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(16, 6 * d))
        nn.init.zeros_(self.ada[1].weight)
        nn.init.zeros_(self.ada[1].bias)

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.ada(c).unsqueeze(1).chunk(6, -1)
        y = self.n1(x) * (1 + s1) + b1
        q, k, v = self.qkv(y).unflatten(-1, (3, self.h, -1)).permute(2, 0, 3, 1, 4)
        x = x + g1 * self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + g2 * self.mlp(self.n2(x) * (1 + s2) + b2)


class DiT(nn.Module):
    def __init__(self, d=40):
        super().__init__()
        self.inp, self.pos = nn.Linear(16, d), nn.Parameter(torch.randn(1, 24, d) * 0.2, requires_grad=False)
        self.blocks = nn.ModuleList([DiTBlock(d) for _ in range(2)])
        self.out = nn.Linear(d, 16)

    def forward(self, x, c):
        x = self.inp(x) + self.pos[:, : x.size(1)]
        for b in self.blocks:
            x = b(x, c)
        return self.out(x)


with torch.random.fork_rng():
    torch.manual_seed(4)
    model = DiT().eval()
_g = torch.Generator().manual_seed(4)
inputs = (torch.randn(2, 21, 16, generator=_g), torch.randn(2, 16, generator=_g))
