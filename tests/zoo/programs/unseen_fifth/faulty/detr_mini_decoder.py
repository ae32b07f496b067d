"""DETR head on flattened image features; images of a batch have different sizes."""
import torch
from torch import nn, Tensor
from typing import Optional


class DecoderLayer(nn.Module):
    def __init__(self, d_model, nhead, dim_feedforward=96, dropout=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)
        self.multihead_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def with_pos_embed(tensor, pos: Optional[Tensor]):
        return tensor if pos is None else tensor + pos

    def forward(self, tgt, memory, memory_key_padding_mask=None, pos=None, query_pos=None):
        q = k = self.with_pos_embed(tgt, query_pos)
        tgt2 = self.self_attn(q, k, value=tgt)[0]
        tgt = self.norm1(tgt + self.dropout(tgt2))
        tgt2 = self.multihead_attn(query=self.with_pos_embed(tgt, query_pos),  # fault: AS202|AS208
                                   key=self.with_pos_embed(memory, pos),
                                   value=memory)[0]
        tgt = self.norm2(tgt + self.dropout(tgt2))
        tgt2 = self.linear2(self.dropout(torch.relu(self.linear1(tgt))))
        return self.norm3(tgt + self.dropout(tgt2))


class MiniDETR(nn.Module):
    def __init__(self, d_model=32, nhead=4, num_queries=6, layers=2, max_tokens=64, num_classes=5):
        super().__init__()
        self.query_embed = nn.Embedding(num_queries, d_model)
        self.query_feat = nn.Embedding(num_queries, d_model)
        self.pos = nn.Embedding(max_tokens, d_model)
        self.encoder = nn.TransformerEncoderLayer(d_model, nhead, 64, batch_first=True)
        self.layers = nn.ModuleList(DecoderLayer(d_model, nhead) for _ in range(layers))
        self.class_embed = nn.Linear(d_model, num_classes + 1)
        self.bbox_embed = nn.Linear(d_model, 4)

    def forward(self, features, pad_mask):
        bs, n, _ = features.shape
        pos = self.pos(torch.arange(n, device=features.device))[None]
        memory = self.encoder(features + pos, src_key_padding_mask=pad_mask)
        query_pos = self.query_embed.weight[None].repeat(bs, 1, 1)
        tgt = self.query_feat.weight[None].repeat(bs, 1, 1)
        for layer in self.layers:
            tgt = layer(tgt, memory, memory_key_padding_mask=pad_mask, pos=pos, query_pos=query_pos)
        return self.class_embed(tgt), self.bbox_embed(tgt).sigmoid()


def model():
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return MiniDETR().eval()


def inputs():
    g = torch.Generator().manual_seed(8)
    feats = torch.randn(3, 11, 32, generator=g)
    sizes = torch.tensor([11, 7, 9])
    pad_mask = torch.arange(11)[None, :] >= sizes[:, None]      # True on padding, as in DETR
    return {"features": feats, "pad_mask": pad_mask}


expect = {"padding": "pad_mask drop"}
