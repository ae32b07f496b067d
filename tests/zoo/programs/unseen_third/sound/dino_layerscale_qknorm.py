"""ViT with QK-norm, layer scale of 1e-5, registers and a parallel attention/MLP block."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ParallelBlock(nn.Module):
    def __init__(self, d=40, h=5, init=1e-5):
        super().__init__()
        self.h, self.norm = h, nn.LayerNorm(d)
        self.fused, self.q_norm, self.k_norm = nn.Linear(d, 3 * d + 2 * d, bias=False), nn.LayerNorm(d // h), nn.LayerNorm(d // h)
        self.attn_out, self.mlp_out, self.gamma = nn.Linear(d, d), nn.Linear(2 * d, d), nn.Parameter(init * torch.ones(d))

    def forward(self, x):
        b, n, d = x.shape
        qkv, m = self.fused(self.norm(x)).split([3 * d, 2 * d], -1)
        q, k, v = qkv.view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v).transpose(1, 2).reshape(b, n, d)
        return x + self.gamma * (self.attn_out(a) + self.mlp_out(F.gelu(m)))


class Dino(nn.Module):
    def __init__(self, d=40, regs=3):
        super().__init__()
        self.patch, self.tokens = nn.Conv2d(3, d, 5, 5), nn.Parameter(torch.randn(1, 1 + regs, d) * 0.02)
        self.pos, self.blocks, self.norm = nn.Parameter(torch.randn(1, 12, d) * 0.02), nn.Sequential(ParallelBlock(d), ParallelBlock(d)), nn.LayerNorm(d)

    def forward(self, img):
        x = self.patch(img).flatten(2).mT + self.pos
        return self.norm(self.blocks(torch.cat([self.tokens.expand(len(x), -1, -1), x], 1)))[:, 0]


with torch.random.fork_rng():
    torch.manual_seed(66)
    model = Dino().eval()
inputs = torch.randn(2, 3, 15, 20, generator=torch.Generator().manual_seed(66))
