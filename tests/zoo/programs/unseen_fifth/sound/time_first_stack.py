"""Marian-like encoder in (time, batch, channel) layout throughout, tutorial PositionalEncoding on axis 0."""
import math
import torch
import torch.nn as nn


class PE(nn.Module):
    def __init__(self, d, n=100):
        super().__init__()
        pos = torch.arange(n).unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe = torch.zeros(n, 1, d)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class TimeFirst(nn.Module):
    def __init__(self, vocab=144, d=36, h=4):
        super().__init__()
        self.emb, self.pe = nn.Embedding(vocab, d), PE(d)
        self.attn = nn.ModuleList([nn.MultiheadAttention(d, h, dropout=0.1) for _ in range(2)])
        self.norm = nn.ModuleList([nn.LayerNorm(d) for _ in range(2)])

    def forward(self, tokens, lengths):
        T, B = tokens.shape
        pad = torch.arange(T, device=tokens.device)[None] >= lengths[:, None]
        x = self.pe(self.emb(tokens) * math.sqrt(self.emb.embedding_dim))
        for a, n in zip(self.attn, self.norm):
            y, _ = a(x, x, x, key_padding_mask=pad)
            x = n(x + y)
        return x


with torch.random.fork_rng():
    torch.manual_seed(19)
    model = TimeFirst().eval()
_l = torch.tensor([11, 7, 9, 4])
_t = torch.randint(1, 144, (11, 4), generator=torch.Generator().manual_seed(19))
inputs = (_t.masked_fill(torch.arange(11)[:, None] >= _l[None], 0), _l)
expect = {"batch_axis": 1, "sequence_axis": 0, "padding": "lengths lengths"}
