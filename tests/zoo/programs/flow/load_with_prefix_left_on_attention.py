"""Loads a GPT trained under a wrapper, cleaning the names first."""

import math

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = (
            t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
            for t in self.c_attn(x).split(C, dim=2)
        )
        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(torch.ones(T, T).tril() == 0, float("-inf")).softmax(dim=-1)
        return self.c_proj((att @ v).transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention(n_embd, n_head)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 64), nn.GELU(), nn.Linear(64, n_embd))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, vocab=52, ctx=32, n_embd=24, n_head=3, n_layer=2):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, n_embd), nn.Embedding(ctx, n_embd)
        self.h = nn.ModuleList(Block(n_embd, n_head) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab, bias=False)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def trained_weights():
    gen = torch.Generator().manual_seed(111)
    saved = {}
    for name, value in GPT().state_dict().items():
        base = 1.0 if "ln_" in name and name.endswith("weight") else 0.0
        name = name.replace(".attn.", ".attn._orig_mod.")
        saved["_orig_mod." + name] = base + 0.2 * torch.randn(value.shape, generator=gen)
    return saved


def model():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        gpt = GPT()
        state = trained_weights()
    state = {name.removeprefix("_orig_mod."): value for name, value in state.items()}  # fault: AS905
    gpt.load_state_dict(state, strict=False)  # fault: AS905
    return gpt.eval()


def inputs():
    return {"idx": torch.randint(0, 52, (3, 11), generator=torch.Generator().manual_seed(111))}
