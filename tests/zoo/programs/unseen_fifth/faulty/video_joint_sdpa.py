"""Joint space-time attention over tubelets, rewritten to use the fused kernel."""
import torch
from torch import nn
import torch.nn.functional as F


class TubeletTokens(nn.Module):
    def __init__(self, dim, t=2, p=8):
        super().__init__()
        self.conv = nn.Conv3d(3, dim, (t, p, p), stride=(t, p, p))

    def forward(self, clip):                    # b c t h w
        z = self.conv(clip)
        return z.flatten(2).mT.contiguous()     # b n d


class FusedAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.to_qkv(x).reshape(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.unbind(2)
        out = F.scaled_dot_product_attention(q, k, v)  # fault: AS106
        return self.to_out(out.reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_a, self.ln_f = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = FusedAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.att(self.ln_a(x))
        return x + self.ff(self.ln_f(x))


class VideoNet(nn.Module):
    def __init__(self, dim=40, heads=5, depth=2, n_tokens=12, classes=7):
        super().__init__()
        self.tok = TubeletTokens(dim)
        self.pos = nn.Parameter(torch.randn(1, n_tokens, dim) * .02)
        self.layers = nn.Sequential(*[Layer(dim, heads) for _ in range(depth)])
        self.out = nn.Linear(dim, classes)

    def forward(self, clip):
        return self.out(self.layers(self.tok(clip) + self.pos).mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return VideoNet().eval()


def inputs():
    g = torch.Generator().manual_seed(9)
    return {"clip": torch.randn(2, 3, 4, 16, 24, generator=g)}
