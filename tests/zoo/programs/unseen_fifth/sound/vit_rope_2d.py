"""ViT with axial 2-D rotary embedding: half of the channels turn with the row, half with the column."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RoPE2D(nn.Module):
    def __init__(self, head_dim, h, w, base=100.0):
        super().__init__()
        quarter = head_dim // 4
        f = base ** (-torch.arange(quarter).float() / quarter)
        y = torch.arange(h).float()[:, None].expand(h, w).reshape(-1)
        x = torch.arange(w).float()[None].expand(h, w).reshape(-1)
        ang = torch.cat([torch.outer(y, f), torch.outer(x, f)], -1)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)

    def forward(self, t):
        a, b = t[..., ::2], t[..., 1::2]
        return torch.stack([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, d, heads, rope):
        super().__init__()
        self.heads, self.rope = heads, rope
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        B, N, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v)
        x = x + self.o(y.transpose(1, 2).reshape(B, N, d))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, d=48, heads=3, hw=(3, 5)):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 4, 4)
        rope = RoPE2D(d // heads, *hw)
        self.blocks = nn.Sequential(*[Block(d, heads, rope) for _ in range(2)])
        self.head = nn.Linear(d, 4)

    def forward(self, x):
        return self.head(self.blocks(self.patch(x).flatten(2).mT).mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(44)
        return ViT().eval()


inputs = torch.randn(2, 3, 12, 20, generator=torch.Generator().manual_seed(45))
