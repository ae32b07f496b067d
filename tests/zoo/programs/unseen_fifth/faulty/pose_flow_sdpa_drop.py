"""Human motion denoiser (diffusion over joint rotations)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MotionLayer(nn.Module):
    def __init__(self, dim, heads, attn_p=0.1):
        super().__init__()
        self.heads, self.attn_p = heads, attn_p
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        y = self.ln1(x)
        q, k, v = (f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_p)  # fault: AS701
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.ff(self.ln2(x))


class MotionDenoiser(nn.Module):
    def __init__(self, feats=12, dim=48, heads=6, depth=2, frames=64, steps=50):
        super().__init__()
        self.inp, self.out = nn.Linear(feats, dim), nn.Linear(dim, feats)
        self.frame = nn.Embedding(frames, dim)
        self.step = nn.Embedding(steps, dim)
        self.layers = nn.ModuleList(MotionLayer(dim, heads) for _ in range(depth))

    def forward(self, motion, t):
        x = self.inp(motion) + self.frame(torch.arange(motion.size(1), device=motion.device)) + self.step(t)[:, None]
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(123)
        return MotionDenoiser().eval()


inputs = {"motion": torch.randn(2, 14, 12, generator=torch.Generator().manual_seed(124)), "t": torch.tensor([3, 40])}
