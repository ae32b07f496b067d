"""Llama-like language model, cache as a tuple per layer."""

import torch
from torch import nn
import torch.nn.functional as F


def rotate(x, start=0, theta=10000.0):
    d = x.shape[-1]
    inv = theta ** (-torch.arange(0, d, 2).float() / d)
    angle = torch.arange(start, start + x.shape[-2]).float()[:, None] * inv
    cos, sin = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Attention(nn.Module):
    def __init__(self, dim, heads, kv):
        super().__init__()
        self.h, self.kv, self.d = heads, kv, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, kv * self.d, bias=False)
        self.v = nn.Linear(dim, kv * self.d, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def forward(self, x, past):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.h, self.d).transpose(1, 2)
        k = self.k(x).view(b, t, self.kv, self.d).transpose(1, 2)
        v = self.v(x).view(b, t, self.kv, self.d).transpose(1, 2)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        s = k.shape[2]
        present = (k, v)
        q, k = rotate(q, s - t), rotate(k)
        mask = torch.ones(t, s, dtype=torch.bool).tril(s - t)
        y = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        return self.o(y.transpose(1, 2).flatten(2)), present


class LM(nn.Module):
    def __init__(self, vocab=66, dim=40, heads=5, kv=1, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.norms = nn.ModuleList(nn.RMSNorm(dim) for _ in range(layers))
        self.attns = nn.ModuleList(Attention(dim, heads, kv) for _ in range(layers))
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, input_ids, past_key_values=None):
        x = self.embed(input_ids)
        past = past_key_values or [None] * len(self.attns)
        new = []
        for norm, attn, layer_past in zip(self.norms, self.attns, past):
            y, present = attn(norm(x), layer_past)
            x = x + y
            new.append(present)
        return self.lm_head(x), tuple(new)


with torch.random.fork_rng():
    torch.manual_seed(75)
    model = LM().eval()

inputs = {"input_ids": torch.randint(0, 66, (2, 11), generator=torch.Generator().manual_seed(75))}
expect = {"causal": True, "cache": "past_key_values"}
