"""Vision transformer attention with a scale of its own and a fused path, https://github.com/huggingface/pytorch-image-models/issues/2280."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    fused_attn: bool = True

    def __init__(self, dim, num_heads=4, scale=None, qk_norm=True):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.scale = scale or self.head_dim**-0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.q_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(self.head_dim) if qk_norm else nn.Identity()
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v)  # fault: AS301|AS208|AS801
        else:
            q = q * self.scale
            attn = (q @ k.transpose(-2, -1)).softmax(dim=-1)
            x = attn @ v
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class ViT(nn.Module):
    def __init__(self, dim=48, depth=2, classes=6):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 4, stride=4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos_embed = nn.Parameter(torch.randn(1, 13, dim) * 0.1)
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.blocks = nn.ModuleList([Attention(dim, scale=1 / (dim // 4)) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), dim=1) + self.pos_embed
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x))
        return self.head(x[:, 0])


with torch.random.fork_rng():
    torch.manual_seed(2280)
    model = ViT().eval()
    inputs = torch.randn(2, 3, 12, 16)
expect = {"scale": 1 / 12}
