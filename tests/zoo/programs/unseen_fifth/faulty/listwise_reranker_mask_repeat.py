"""Listwise re-ranker: per-sample candidate visibility is passed to nn.MultiheadAttention as a 3-D mask."""
# also: AS102
import torch
from torch import nn


class ListwiseBlock(nn.Module):
    def __init__(self, dim=30, heads=3):
        super().__init__()
        self.heads = heads
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True, bias=False)
        self.ffn = nn.Sequential(nn.Linear(dim, 50), nn.ReLU(inplace=True), nn.Linear(50, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, cands, group):
        blocked = group[:, :, None] != group[:, None, :]          # (batch, n, n), True = may not attend
        attn_mask = blocked.repeat(self.heads, 1, 1)  # fault: AS211
        y = self.n1(cands)
        y, _ = self.attn(y, y, y, attn_mask=attn_mask, need_weights=False)
        cands = cands + y
        return cands + self.ffn(self.n2(cands))


class ListwiseReranker(nn.Module):
    def __init__(self, feat=22, dim=30, depth=2):
        super().__init__()
        self.inp = nn.Linear(feat, dim)
        self.blocks = nn.ModuleList(ListwiseBlock(dim) for _ in range(depth))
        self.score = nn.Linear(dim, 1)

    def forward(self, feats, group):
        x = self.inp(feats)
        for blk in self.blocks:
            x = blk(x, group)
        return self.score(x).squeeze(-1)


torch.manual_seed(36)
model = ListwiseReranker().eval()
g = torch.Generator().manual_seed(36)
inputs = {"feats": torch.randn(4, 9, 22, generator=g),
          "group": torch.tensor([[0] * 4 + [1] * 5, [0] * 7 + [1] * 2, [0, 1, 2] * 3, [0] * 9])}
