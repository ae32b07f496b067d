"""Homework decoder: each head is a module of its own, outputs are concatenated; unequal head widths."""

import torch
import torch.nn as nn
from torch.nn import functional as F

block_size = 24


class Head(nn.Module):
    """One head of self-attention."""

    def __init__(self, n_embd, head_size):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        k = self.key(x)
        q = self.query(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        wei = F.softmax(wei, dim=-1)
        return wei @ self.value(x)


class MultiHeadAttention(nn.Module):
    def __init__(self, n_embd, head_sizes):
        super().__init__()
        self.heads = nn.ModuleList([Head(n_embd, size) for size in head_sizes])
        self.proj = nn.Linear(sum(head_sizes), n_embd)

    def forward(self, x):
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        return self.proj(out)


class Block(nn.Module):
    def __init__(self, n_embd, head_sizes):
        super().__init__()
        self.sa = MultiHeadAttention(n_embd, head_sizes)
        self.ffwd = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd))
        self.ln1, self.ln2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)

    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        x = x + self.ffwd(self.ln2(x))
        return x


class BigramLanguageModel(nn.Module):
    def __init__(self, vocab_size=39, n_embd=34):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocab_size, n_embd)
        self.position_embedding_table = nn.Embedding(block_size, n_embd)
        self.blocks = nn.Sequential(Block(n_embd, (6, 10, 14)), Block(n_embd, (8, 8, 12)))
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size)

    def forward(self, idx):
        B, T = idx.shape
        pos_emb = self.position_embedding_table(torch.arange(T, device=idx.device))
        x = self.blocks(self.token_embedding_table(idx) + pos_emb)
        return self.lm_head(self.ln_f(x))


with torch.random.fork_rng():
    torch.manual_seed(1337)
    model = BigramLanguageModel().eval()

inputs = torch.randint(0, 39, (4, 10), generator=torch.Generator().manual_seed(112))
expect = {"causal": True}
