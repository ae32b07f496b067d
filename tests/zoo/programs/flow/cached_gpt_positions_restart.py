"""GPT with a key-value cache handed in and out as a list of pairs."""

import math

import torch
import torch.nn as nn
from torch.nn import functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x, layer_past=None):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=-2)
            v = torch.cat((layer_past[1], v), dim=-2)
        S = k.size(-2)
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        seen = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(diagonal=S - T)
        att = F.softmax(att.masked_fill(~seen, float("-inf")), dim=-1)
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y), (k, v)


class GPT(nn.Module):
    def __init__(self, vocab=50, ctx=48, n_embd=32, n_head=2, n_layer=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, n_embd)
        self.wpe = nn.Embedding(ctx, n_embd)
        self.ln = nn.ModuleList(nn.LayerNorm(n_embd) for _ in range(n_layer))
        self.h = nn.ModuleList(CausalSelfAttention(n_embd, n_head) for _ in range(n_layer))
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)

    def forward(self, idx, past=None):
        pos = torch.arange(0, idx.size(1), device=idx.device)  # fault: AS601
        x = self.wte(idx) + self.wpe(pos)  # fault: AS601
        presents = []
        for i, (ln, attn) in enumerate(zip(self.ln, self.h)):
            y, present = attn(ln(x), None if past is None else past[i])
            x = x + y
            presents.append(present)
        return self.lm_head(x), presents


with torch.random.fork_rng():
    torch.manual_seed(70)
    model = GPT().eval()

inputs = {"idx": torch.randint(0, 50, (2, 12), generator=torch.Generator().manual_seed(70))}
expect = {"causal": True, "cache": "past"}
