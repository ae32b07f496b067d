"""ViT for an explainability homework: forward returns class logits and the attention of each block."""
import torch
import torch.nn as nn


class ExplainableAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attn_weights = (torch.matmul(q, k.transpose(-1, -2)) * self.scale).softmax(-1)
        y = attn_weights @ v
        return self.proj(y.transpose(1, 2).reshape(b, n, c)), attn_weights


class HookedViT(nn.Module):
    def __init__(self, dim=36, depth=2):
        super().__init__()
        self.to_patch = nn.Unfold(4, stride=4)
        self.proj, self.pos = nn.Linear(48, dim), nn.Parameter(torch.randn(1, 25, dim) * 0.1)
        self.blocks = nn.ModuleList([ExplainableAttention(dim, 3) for _ in range(depth)])
        self.norm = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, 7)

    def forward(self, img):
        x, attns = self.proj(self.to_patch(img).transpose(1, 2)) + self.pos, []
        for blk, n in zip(self.blocks, self.norm):
            y, a = blk(n(x))
            x = x + y
            attns.append(a)
        return self.head(x.mean(1)), attns


with torch.random.fork_rng():
    torch.manual_seed(101)
    model = HookedViT().eval()
inputs = (torch.randn(2, 3, 20, 20, generator=torch.Generator().manual_seed(101)),)
