"""nanoGPT attention with a cache argument bolted on."""

import math

import torch
import torch.nn as nn
from torch.nn import functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.n_head = n_head
        self.register_buffer("bias", torch.tril(torch.ones(1, 1, block_size, block_size)))

    def forward(self, x, layer_past=None):
        B, T, C = x.size()
        q, k, v = (
            t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            for t in self.c_attn(x).split(C, dim=2)
        )
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=-2)
            v = torch.cat((layer_past[1], v), dim=-2)
        S = k.size(-2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.bias[:, :, :T, :S] == 0, float("-inf"))  # fault: AS206
        y = F.softmax(att, dim=-1) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y), (k, v)


class GPT(nn.Module):
    def __init__(self, vocab=31, n_embd=36, n_head=6, n_layer=2, block_size=48):
        super().__init__()
        self.wte = nn.Embedding(vocab, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.attns = nn.ModuleList(CausalSelfAttention(n_embd, n_head, block_size) for _ in range(n_layer))
        self.lns = nn.ModuleList(nn.LayerNorm(n_embd) for _ in range(n_layer + 1))
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)

    def forward(self, idx, cache=None):
        start = 0 if cache is None else cache[0][0].size(-2)
        x = self.wte(idx) + self.wpe(torch.arange(start, start + idx.size(1)))
        new = []
        for i, attn in enumerate(self.attns):
            y, kv = attn(self.lns[i](x), None if cache is None else cache[i])
            x = x + y
            new.append(kv)
        return self.lm_head(self.lns[-1](x)), tuple(new)


# also: AS601 AS212
def model():
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return GPT().eval()


inputs = (torch.randint(0, 31, (3, 10), generator=torch.Generator().manual_seed(7)),)
expect = {"causal": True, "cache": "cache"}
