"""Transformer acoustic encoder over filterbank frames of unequal length."""

import math

import torch
from torch import nn


def make_non_pad_mask(lengths, maxlen):
    steps = torch.arange(maxlen, device=lengths.device)
    return steps.unsqueeze(0) < lengths.unsqueeze(1)


class MultiHeadedAttention(nn.Module):
    def __init__(self, n_head, n_feat, dropout_rate):
        super().__init__()
        self.d_k = n_feat // n_head
        self.h = n_head
        self.linear_q = nn.Linear(n_feat, n_feat)
        self.linear_k = nn.Linear(n_feat, n_feat)
        self.linear_v = nn.Linear(n_feat, n_feat)
        self.linear_out = nn.Linear(n_feat, n_feat)
        self.dropout = nn.Dropout(p=dropout_rate)

    def forward_qkv(self, query, key, value):
        n_batch = query.size(0)
        q = self.linear_q(query).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        k = self.linear_k(key).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(value).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        return q, k, v

    def forward_attention(self, value, scores, mask):
        n_batch = value.size(0)
        mask = mask.unsqueeze(1).eq(0)
        scores = scores.masked_fill(mask, float("-inf"))
        attn = torch.softmax(scores, dim=-1)
        x = torch.matmul(self.dropout(attn), value)
        x = x.transpose(1, 2).contiguous().view(n_batch, -1, self.h * self.d_k)
        return self.linear_out(x)

    def forward(self, query, key, value, mask):
        q, k, v = self.forward_qkv(query, key, value)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        return self.forward_attention(v, scores, mask)


class EncoderLayer(nn.Module):
    def __init__(self, size, heads, units):
        super().__init__()
        self.self_attn = MultiHeadedAttention(heads, size, 0.1)
        self.feed_forward = nn.Sequential(nn.Linear(size, units), nn.ReLU(), nn.Linear(units, size))
        self.norm1 = nn.LayerNorm(size)
        self.norm2 = nn.LayerNorm(size)

    def forward(self, x, mask):
        y = self.norm1(x)
        x = x + self.self_attn(y, y, y, mask)
        return x + self.feed_forward(self.norm2(x))


class TransformerEncoder(nn.Module):
    def __init__(self, idim=20, adim=48, aheads=4, layers=2, odim=11):
        super().__init__()
        self.embed = nn.Linear(idim, adim)
        pos = torch.arange(200).unsqueeze(1)
        div = torch.exp(torch.arange(0, adim, 2) * (-math.log(10000.0) / adim))
        pe = torch.zeros(1, 200, adim)
        pe[0, :, 0::2] = torch.sin(pos * div)
        pe[0, :, 1::2] = torch.cos(pos * div)
        self.register_buffer("pe", pe, persistent=False)
        self.encoders = nn.ModuleList(EncoderLayer(adim, aheads, 96) for _ in range(layers))
        self.after_norm = nn.LayerNorm(adim)
        self.ctc_lo = nn.Linear(adim, odim)

    def forward(self, xs_pad, ilens):
        masks = make_non_pad_mask(ilens, xs_pad.size(1)).unsqueeze(-2)
        xs = self.embed(xs_pad) * math.sqrt(self.pe.size(-1)) + self.pe[:, : xs_pad.size(1)]
        for layer in self.encoders:
            xs = layer(xs, masks)
        return self.ctc_lo(self.after_norm(xs))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(11)
        return TransformerEncoder().eval()


def inputs():
    g = torch.Generator().manual_seed(5)
    return {"xs_pad": torch.randn(3, 17, 20, generator=g), "ilens": torch.tensor([17, 9, 13])}


expect = {"padding": "ilens lengths", "causal": False}
