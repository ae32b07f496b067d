"""Window attention of a Swin-like segmentation backbone (no shift)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class WindowMSA(nn.Module):
    def __init__(self, dim, ws=3, heads=4):
        super().__init__()
        self.heads, self.ws = heads, ws
        self.rpb = nn.Parameter(torch.zeros((2 * ws - 1) ** 2, heads))  # fault: AS903|AS208
        nn.init.trunc_normal_(self.rpb, std=0.3)
        c = torch.cartesian_prod(torch.arange(ws), torch.arange(ws))
        rel = c[:, None] - c[None] + ws - 1
        self.register_buffer("idx", rel[..., 0] * (2 * ws - 1) + rel[..., 1])
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        bias = self.rpb[self.idx].permute(2, 0, 1)
        y = F.scaled_dot_product_attention(q, k, v)  # fault: AS903|AS208
        return self.proj(y.transpose(1, 2).reshape(B, N, C))


class Stage(nn.Module):
    def __init__(self, dim=32, ws=3):
        super().__init__()
        self.ws, self.norm, self.attn = ws, nn.LayerNorm(dim), WindowMSA(dim, ws)

    def forward(self, x):
        B, H, W, C = x.shape
        w = self.ws
        y = self.norm(x).view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(-1, w * w, C)
        y = self.attn(y).view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)
        return x + y


# also: AS501
with torch.random.fork_rng():
    torch.manual_seed(105)
    model = Stage().eval()
inputs = torch.randn(2, 6, 9, 32, generator=torch.Generator().manual_seed(105))
