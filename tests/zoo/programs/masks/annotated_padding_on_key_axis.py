"""Sentence-pair encoder with masked scaled dot-product attention."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ScaledDotProductAttention(nn.Module):
    def forward(self, q, k, v, mask=None):
        score = q @ k.transpose(2, 3) / math.sqrt(q.size(3))
        if mask is not None:
            score = score.masked_fill(mask == 0, -10000)
        score = F.softmax(score, dim=-1)
        return score @ v, score


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.attention = ScaledDotProductAttention()
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_concat = nn.Linear(d_model, d_model)

    def split(self, tensor):
        batch_size, length, d_model = tensor.size()
        return tensor.view(batch_size, length, self.n_head, d_model // self.n_head).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v))
        out, _ = self.attention(q, k, v, mask=mask)
        batch_size, head, length, d = out.size()
        out = out.transpose(1, 2).contiguous().view(batch_size, length, head * d)
        return self.w_concat(out)


class EncoderLayer(nn.Module):
    def __init__(self, d_model, ffn_hidden, n_head):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_head)
        self.norm1 = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, ffn_hidden), nn.ReLU(), nn.Linear(ffn_hidden, d_model))
        self.norm2 = nn.LayerNorm(d_model)

    def forward(self, x, s_mask):
        x = self.norm1(x + self.attention(q=x, k=x, v=x, mask=s_mask))
        return self.norm2(x + self.ffn(x))


class Encoder(nn.Module):
    def __init__(self, enc_voc_size=31, max_len=20, d_model=32, ffn_hidden=50, n_head=4, n_layers=2):
        super().__init__()
        self.src_pad_idx = 1
        self.tok_emb = nn.Embedding(enc_voc_size, d_model, padding_idx=1)
        self.pos_emb = nn.Parameter(0.1 * torch.randn(max_len, d_model))
        self.layers = nn.ModuleList(EncoderLayer(d_model, ffn_hidden, n_head) for _ in range(n_layers))

    def make_src_mask(self, src):
        return (src != self.src_pad_idx).unsqueeze(1).unsqueeze(2)

    def forward(self, src):
        src_mask = self.make_src_mask(src)
        x = self.tok_emb(src) + self.pos_emb[: src.size(1)]
        for layer in self.layers:
            x = layer(x, src_mask)
        return x


with torch.random.fork_rng():
    torch.manual_seed(14)
    model = Encoder().eval()


def inputs():
    src = torch.randint(2, 31, (3, 10), generator=torch.Generator().manual_seed(1))
    src[0, 7:] = 1
    src[2, 4:] = 1
    return {"src": src}


expect = {"padding": "src pad=1", "causal": False}
