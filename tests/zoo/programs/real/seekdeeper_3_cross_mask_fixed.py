"""Translation transformer written from the paper, https://github.com/Kamichanw/SeekDeeper/issues/3."""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.n_heads, -1).transpose(1, 2)

    def forward(self, q, k, v, mask):
        q, k, v = self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v))
        score = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        score = score.masked_fill(mask == 0, -1e9)
        out = score.softmax(-1) @ v
        return self.w_o(out.transpose(1, 2).contiguous().view(out.size(0), out.size(2), -1))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, src, src_mask):
        return self.norm(src + self.attention(src, src, src, src_mask))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, tgt, memory, tgt_mask, src_mask):
        tgt = self.norm1(tgt + self.attention(tgt, tgt, tgt, tgt_mask))
        return self.norm2(tgt + self.cross_attention(tgt, memory, memory, src_mask))


class Transformer(nn.Module):
    def __init__(self, vocab=52, d_model=40, n_heads=4, max_len=32, pad_idx=0):
        super().__init__()
        self.pad_idx = pad_idx
        self.embed = nn.Embedding(vocab, d_model, padding_idx=pad_idx)
        self.pos = nn.Embedding(max_len, d_model)
        self.encoder = EncoderLayer(d_model, n_heads)
        self.decoder = DecoderLayer(d_model, n_heads)
        self.generator = nn.Linear(d_model, vocab)

    def forward(self, src, tgt):
        src_mask = (src != self.pad_idx)[:, None, None, :]
        length = tgt.size(1)
        tgt_mask = (tgt != self.pad_idx)[:, None, None, :] & torch.ones(length, length).tril().bool()
        memory = self.encoder(self.embed(src) + self.pos.weight[: src.size(1)], src_mask)
        x = self.embed(tgt) + self.pos.weight[:length]
        return self.generator(self.decoder(x, memory, tgt_mask, src_mask))


with torch.random.fork_rng():
    torch.manual_seed(30)
    model = Transformer().eval()
    src = torch.randint(1, 52, (3, 9)).masked_fill(torch.arange(9) >= torch.tensor([[9], [6], [5]]), 0)
    tgt = torch.randint(1, 52, (3, 9)).masked_fill(torch.arange(9) >= torch.tensor([[8], [9], [7]]), 0)
    inputs = {"src": src, "tgt": tgt}
expect = {"causal": True, "padding": "src pad=0"}
