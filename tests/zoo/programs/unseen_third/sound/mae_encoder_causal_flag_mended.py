"""MAE encoder: 75 % of the patches dropped, the rest encoded."""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, dim, num_heads=4, qkv_bias=True, is_causal=False):
        super().__init__()
        self.num_heads = num_heads
        self.is_causal = is_causal
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4).unbind(0)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class MAEEncoder(nn.Module):
    def __init__(self, img=32, patch=4, dim=40, depth=2, mask_ratio=0.75):
        super().__init__()
        self.patchify = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.randn(1, (img // patch) ** 2, dim) * 0.02)
        self.attn = nn.ModuleList([Attention(dim) for _ in range(depth)])
        self.norm = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.mask_ratio = mask_ratio

    def random_masking(self, x, noise):
        keep = int(x.shape[1] * (1 - self.mask_ratio))
        ids = torch.argsort(noise, dim=1)[:, :keep]
        return torch.gather(x, 1, ids.unsqueeze(-1).expand(-1, -1, x.shape[-1]))

    def forward(self, imgs, noise):
        x = self.patchify(imgs).flatten(2).transpose(1, 2) + self.pos
        x = self.random_masking(x, noise)
        for a, n in zip(self.attn, self.norm):
            x = x + a(n(x))
        return x


with torch.random.fork_rng():
    torch.manual_seed(64)
    model = MAEEncoder().eval()
_g = torch.Generator().manual_seed(64)
inputs = (torch.randn(3, 3, 32, 32, generator=_g), torch.rand(3, 64, generator=_g))
expect = {"causal": False}
