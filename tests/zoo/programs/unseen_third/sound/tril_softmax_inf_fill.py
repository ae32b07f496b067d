"""Minimal causal attention: torch.tril on the scores."""
import torch
import torch.nn as nn


class TrilAttention(nn.Module):
    def __init__(self, d=30, h=3):
        super().__init__()
        self.h, self.c_attn, self.c_proj = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = [t.view(B, T, self.h, -1).transpose(1, 2) for t in self.c_attn(x).split(C, 2)]
        att = q @ k.transpose(-2, -1) / (C // self.h) ** 0.5
        att = att.masked_fill(torch.tril(torch.ones_like(att)) == 0, float("-inf"))
        att = att.softmax(-1)
        return self.c_proj((att @ v).transpose(1, 2).reshape(B, T, C))


class TrilLM(nn.Module):
    def __init__(self, vocab=48, d=30):
        super().__init__()
        self.wte, self.wpe, self.a, self.n, self.lm_head = nn.Embedding(vocab, d), nn.Embedding(32, d), TrilAttention(d), nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, x):
        h = self.wte(x) + self.wpe(torch.arange(x.size(1)))
        return self.lm_head(h + self.a(self.n(h)))


torch.manual_seed(0)
model = TrilLM().eval()
