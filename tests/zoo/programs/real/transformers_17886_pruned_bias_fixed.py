"""T5-like encoder with two heads pruned in the second layer, https://github.com/huggingface/transformers/issues/17886."""

import math

import torch
from torch import nn


class T5Attention(nn.Module):
    def __init__(self, d_model, d_kv, n_heads, has_relative_attention_bias=False):
        super().__init__()
        self.d_kv = d_kv
        self.n_heads = n_heads
        self.kept_heads = list(range(n_heads))
        self.q = nn.Linear(d_model, n_heads * d_kv, bias=False)
        self.k = nn.Linear(d_model, n_heads * d_kv, bias=False)
        self.v = nn.Linear(d_model, n_heads * d_kv, bias=False)
        self.o = nn.Linear(n_heads * d_kv, d_model, bias=False)
        for linear in (self.q, self.k, self.v):
            nn.init.normal_(linear.weight, std=(d_model * math.sqrt(d_kv)) ** -0.5)
        if has_relative_attention_bias:
            self.relative_attention_bias = nn.Embedding(32, n_heads)

    def prune_heads(self, heads):
        keep = [h for h in range(self.n_heads) if h not in heads]
        index = torch.cat([torch.arange(h * self.d_kv, (h + 1) * self.d_kv) for h in keep])
        for name in ("q", "k", "v"):
            old = getattr(self, name)
            new = nn.Linear(old.in_features, len(index), bias=False)
            new.weight.data = old.weight.data[index].clone()
            setattr(self, name, new)
        old = self.o
        self.o = nn.Linear(len(index), old.out_features, bias=False)
        self.o.weight.data = old.weight.data[:, index].clone()
        self.n_heads = len(keep)
        self.kept_heads = keep

    def compute_bias(self, length):
        position = torch.arange(length)
        bucket = (position[None, :] - position[:, None]).clamp(-15, 15) + 16
        return self.relative_attention_bias(bucket).permute(2, 0, 1).unsqueeze(0)

    def forward(self, hidden_states, position_bias=None):
        b, t, _ = hidden_states.shape

        def shape(states):
            return states.view(b, t, self.n_heads, self.d_kv).transpose(1, 2)

        q, k, v = shape(self.q(hidden_states)), shape(self.k(hidden_states)), shape(self.v(hidden_states))
        scores = torch.matmul(q, k.transpose(3, 2))
        if position_bias is None:
            position_bias = self.compute_bias(t)
        scores += position_bias[:, self.kept_heads]
        weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        output = torch.matmul(weights, v).transpose(1, 2).contiguous().view(b, t, -1)
        return self.o(output), position_bias


class T5Encoder(nn.Module):
    def __init__(self, vocab=59, d_model=42, d_kv=9, n_heads=5, n_layers=3):
        super().__init__()
        self.shared = nn.Embedding(vocab, d_model)
        self.norms = nn.ModuleList([nn.RMSNorm(d_model) for _ in range(n_layers)])
        self.block = nn.ModuleList([T5Attention(d_model, d_kv, n_heads, i == 0) for i in range(n_layers)])

    def forward(self, input_ids):
        hidden = self.shared(input_ids)
        position_bias = None
        for norm, attention in zip(self.norms, self.block):
            output, position_bias = attention(norm(hidden), position_bias)
            hidden = hidden + output
        return hidden


with torch.random.fork_rng():
    torch.manual_seed(17)
    model = T5Encoder().eval()
    model.block[1].prune_heads({0, 3})
    inputs = torch.randint(0, 59, (2, 8))
