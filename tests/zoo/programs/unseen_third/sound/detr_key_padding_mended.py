"""DETR-like detector head: encoder over the feature map, object queries, pixel padding mask (True = padding)."""
import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d, h)
        self.multihead_attn = nn.MultiheadAttention(d, h)
        self.lin = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, tgt, memory, memory_key_padding_mask, pos, query_pos):
        q = k = tgt + query_pos
        tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt)[0])
        tgt2 = self.multihead_attn(query=tgt + query_pos, key=memory + pos, value=memory, key_padding_mask=memory_key_padding_mask)[0]
        tgt = self.norm2(tgt + tgt2)
        return self.norm3(tgt + self.lin(tgt))


class MiniDETR(nn.Module):
    def __init__(self, d=32, h=4, num_queries=7, classes=5):
        super().__init__()
        self.input_proj = nn.Conv2d(6, d, 1)
        self.query_embed = nn.Embedding(num_queries, d)
        self.row_embed = nn.Parameter(torch.rand(20, d // 2))
        self.col_embed = nn.Parameter(torch.rand(20, d // 2))
        self.layers = nn.ModuleList([DecoderLayer(d, h) for _ in range(2)])
        self.class_embed = nn.Linear(d, classes + 1)

    def forward(self, feat, mask):
        h = self.input_proj(feat)
        B, _, H, W = h.shape
        pos = torch.cat([self.col_embed[:W].unsqueeze(0).repeat(H, 1, 1), self.row_embed[:H].unsqueeze(1).repeat(1, W, 1)], -1)
        pos = pos.flatten(0, 1).unsqueeze(1)
        memory = h.flatten(2).permute(2, 0, 1)
        keep = mask.flatten(1)
        query_pos = self.query_embed.weight.unsqueeze(1).repeat(1, B, 1)
        tgt = torch.zeros_like(query_pos)
        for layer in self.layers:
            tgt = layer(tgt, memory, keep, pos, query_pos)
        return self.class_embed(tgt.transpose(0, 1))


with torch.random.fork_rng():
    torch.manual_seed(10)
    model = MiniDETR().eval()


def inputs():
    m = torch.zeros(2, 5, 6, dtype=torch.bool)
    m[0, :, 4:] = True
    m[1, 3:, :] = True
    return {"feat": torch.randn(2, 6, 5, 6, generator=torch.Generator().manual_seed(1)), "mask": m}


expect = {"padding": "mask drop"}
