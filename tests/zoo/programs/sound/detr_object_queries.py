"""DETR: learned object queries with content, image features from padded images, positions added to queries and keys only."""

import math

import torch
from torch import nn


class PositionEmbeddingSine(nn.Module):
    def __init__(self, num_pos_feats, temperature=10000):
        super().__init__()
        self.num_pos_feats, self.temperature, self.scale = num_pos_feats, temperature, 2 * math.pi

    def forward(self, mask):
        not_mask = ~mask
        y, x = not_mask.cumsum(1, dtype=torch.float32), not_mask.cumsum(2, dtype=torch.float32)
        y = y / (y[:, -1:, :] + 1e-6) * self.scale
        x = x / (x[:, :, -1:] + 1e-6) * self.scale
        dim_t = torch.arange(self.num_pos_feats, dtype=torch.float32, device=mask.device)
        dim_t = self.temperature ** (2 * torch.div(dim_t, 2, rounding_mode="floor") / self.num_pos_feats)
        px, py = x[..., None] / dim_t, y[..., None] / dim_t
        px = torch.stack((px[..., 0::2].sin(), px[..., 1::2].cos()), dim=4).flatten(3)
        py = torch.stack((py[..., 0::2].sin(), py[..., 1::2].cos()), dim=4).flatten(3)
        return torch.cat((py, px), dim=3).permute(0, 3, 1, 2)


class EncoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d, h)
        self.linear1, self.linear2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, src, pos, pad):
        q = k = src + pos
        src = self.norm1(src + self.self_attn(q, k, value=src, key_padding_mask=pad)[0])
        return self.norm2(src + self.linear2(self.linear1(src).relu()))


class DecoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.self_attn, self.multihead_attn = nn.MultiheadAttention(d, h), nn.MultiheadAttention(d, h)
        self.linear1, self.linear2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, tgt, memory, query_pos, pos, pad):
        q = k = tgt + query_pos
        tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt)[0])
        h = self.multihead_attn(query=tgt + query_pos, key=memory + pos, value=memory, key_padding_mask=pad)[0]
        tgt = self.norm2(tgt + h)
        return self.norm3(tgt + self.linear2(self.linear1(tgt).relu()))


class DETR(nn.Module):
    def __init__(self, classes=5, d=32, h=4, queries=7):
        super().__init__()
        self.backbone = nn.Conv2d(3, d, 4, stride=4)
        self.position = PositionEmbeddingSine(d // 2)
        self.query_embed = nn.Embedding(queries, 2 * d)
        self.encoder = nn.ModuleList(EncoderLayer(d, h) for _ in range(2))
        self.decoder = nn.ModuleList(DecoderLayer(d, h) for _ in range(2))
        self.class_embed, self.bbox_embed = nn.Linear(d, classes + 1), nn.Linear(d, 4)

    def forward(self, image, image_mask):
        feat = self.backbone(image)
        mask = image_mask[:, ::4, ::4]
        pos = self.position(mask).flatten(2).permute(2, 0, 1)
        src, pad = feat.flatten(2).permute(2, 0, 1), mask.flatten(1)
        for layer in self.encoder:
            src = layer(src, pos, pad)
        query_pos, tgt = self.query_embed.weight.unsqueeze(1).repeat(1, image.shape[0], 1).chunk(2, dim=-1)
        for layer in self.decoder:
            tgt = layer(tgt, src, query_pos, pos, pad)
        hs = tgt.transpose(0, 1)
        return {"pred_logits": self.class_embed(hs), "pred_boxes": self.bbox_embed(hs).sigmoid()}


with torch.random.fork_rng():
    torch.manual_seed(63)
    model = DETR().eval()


def inputs():
    image = torch.randn(2, 3, 16, 24, generator=torch.Generator().manual_seed(64))
    mask = torch.zeros(2, 16, 24, dtype=torch.bool)
    mask[1, 12:], mask[1, :, 16:] = True, True
    return {"image": image.masked_fill(mask[:, None], 0.0), "image_mask": mask}
