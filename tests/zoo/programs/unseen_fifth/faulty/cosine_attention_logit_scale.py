"""Retriever with cosine attention: l2-normalised queries and keys and a learned per-head temperature."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CosineAttention(nn.Module):
    def __init__(self, dim, num_heads, max_scale=200.0):
        super().__init__()
        self.num_heads = num_heads
        self.max_scale = max_scale
        self.logit_scale = nn.Parameter(torch.full((num_heads, 1, 1), 160.0))  # fault: AS302|AS901
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        attn = attn * self.logit_scale.clamp(max=self.max_scale)  # fault: AS302|AS901
        attn = attn.softmax(dim=-1)  # fault: AS302|AS901
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class DocEncoder(nn.Module):
    def __init__(self, vocab=222, dim=48, num_heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(64, dim)
        self.blocks = nn.ModuleList(CosineAttention(dim, num_heads) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[None, : ids.shape[1]]
        for blk, n in zip(self.blocks, self.norms):
            x = n(x + blk(x))
        return F.normalize(x.mean(1), dim=-1)


with torch.random.fork_rng():
    torch.manual_seed(302)
    model = DocEncoder().eval()
inputs = (torch.randint(0, 222, (3, 24), generator=torch.Generator().manual_seed(30)),)
