"""Sentence encoder for queries padded on the left; masked mean at the end."""

import math

import torch
from torch import nn


class SentenceEncoder(nn.Module):
    def __init__(self, n_words=90, d=36, n_heads=6, max_len=80):
        super().__init__()
        self.d, self.n_heads = d, n_heads
        self.emb = nn.Embedding(n_words, d, padding_idx=0)
        pos = torch.arange(max_len).float().unsqueeze(1)
        freq = torch.exp(-math.log(1e4) * torch.arange(0, d, 2).float() / d)
        pe = torch.empty(max_len, d)
        pe[:, 0::2], pe[:, 1::2] = (pos * freq).sin(), (pos * freq).cos()
        self.register_buffer("pe", pe)
        self.q_lin = nn.Linear(d, d)
        self.k_lin = nn.Linear(d, d)
        self.v_lin = nn.Linear(d, d)
        self.out_lin = nn.Linear(d, d)
        self.norm = nn.LayerNorm(d)

    def forward(self, tokens):
        real = tokens != 0
        bs, length = tokens.shape
        places = torch.arange(length).expand(bs, length)  # fault: AS504
        x = self.emb(tokens) * math.sqrt(self.d) + self.pe[places]  # fault: AS504

        def shape(t):
            return t.view(bs, -1, self.n_heads, self.d // self.n_heads).transpose(1, 2)

        q = shape(self.q_lin(x)) / math.sqrt(self.d // self.n_heads)
        scores = torch.matmul(q, shape(self.k_lin(x)).transpose(2, 3))
        scores.masked_fill_(~real[:, None, None, :], -float("inf"))
        context = torch.matmul(torch.softmax(scores, dim=-1), shape(self.v_lin(x)))
        x = self.norm(x + self.out_lin(context.transpose(1, 2).reshape(bs, length, self.d)))
        return (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)


with torch.random.fork_rng():
    torch.manual_seed(23)
    model = SentenceEncoder().eval()

tokens = torch.randint(1, 90, (4, 11), generator=torch.Generator().manual_seed(23))
tokens[1, :4] = 0
tokens[3, :7] = 0
inputs = {"tokens": tokens}
expect = {"padding": "tokens pad=0"}
