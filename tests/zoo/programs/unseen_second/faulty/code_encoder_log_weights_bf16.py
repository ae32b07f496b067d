"""Code search encoder: bidirectional, mean of real tokens, half precision inside."""

import math

import torch
from torch import nn


class EncoderAttention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads, self.size_per_head = heads, size // heads
        self.query, self.key = nn.Linear(size, size), nn.Linear(size, size)
        self.value, self.dense = nn.Linear(size, size), nn.Linear(size, size)

    def transpose_for_scores(self, x):
        return x.view(*x.size()[:-1], self.heads, self.size_per_head).permute(0, 2, 1, 3)

    def forward(self, states, bias):
        q = self.transpose_for_scores(self.query(states))
        k = self.transpose_for_scores(self.key(states))
        v = self.transpose_for_scores(self.value(states))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size_per_head)
        scores = scores + bias.to(scores.dtype)
        probs = torch.log_softmax(scores, dim=-1).exp()  # fault: AS304
        context = torch.matmul(probs, v).permute(0, 2, 1, 3).contiguous()
        return self.dense(context.view(*context.size()[:-2], -1))


class CodeEncoder(nn.Module):
    def __init__(self, vocab=140, size=48, heads=6, layers=2, pad=1):
        super().__init__()
        self.pad = pad
        self.word, self.place = nn.Embedding(vocab, size, padding_idx=pad), nn.Embedding(900, size)
        self.attention = nn.ModuleList(EncoderAttention(size, heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(size) for _ in range(layers))

    def forward(self, input_ids):
        keep = input_ids.ne(self.pad)
        bias = torch.zeros(keep.shape).masked_fill(~keep, -1e30)[:, None, None, :]
        h = self.word(input_ids) + self.place(torch.arange(input_ids.size(1)))
        for attention, norm in zip(self.attention, self.norm):
            h = norm(h + attention(h, bias))
        keep = keep.unsqueeze(-1).to(h.dtype)
        return (h * keep).sum(1) / keep.sum(1)


torch.manual_seed(64)
model = CodeEncoder().to(torch.bfloat16).eval()
input_ids = torch.randint(2, 140, (4, 500))
for row, n in enumerate((500, 380, 450, 350)):
    input_ids[row, n:] = 1
inputs = {"input_ids": input_ids}
expect = {"padding": "input_ids pad=1", "causal": False}
