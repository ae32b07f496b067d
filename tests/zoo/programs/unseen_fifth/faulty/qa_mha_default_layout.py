"""Extractive QA head: two MultiheadAttention layers on top of token embeddings, start/end logits."""
import torch
from torch import nn


class SpanQA(nn.Module):
    def __init__(self, vocab_size=500, hidden=32, nhead=4, depth=2):
        super().__init__()
        self.word = nn.Embedding(vocab_size, hidden, padding_idx=0)
        self.where = nn.Parameter(torch.randn(1, 80, hidden) * 0.02)
        self.mixers = nn.ModuleList()
        self.norms = nn.ModuleList()
        for _ in range(depth):
            self.mixers.append(nn.MultiheadAttention(hidden, nhead, dropout=0.1))
            self.norms.append(nn.LayerNorm(hidden))
        self.span = nn.Linear(hidden, 2)

    def forward(self, token_ids):
        h = self.word(token_ids) + self.where[:, : token_ids.size(1)]   # (batch, seq, hidden)
        for mixer, norm in zip(self.mixers, self.norms):
            a, _ = mixer(h, h, h)  # fault: AS102
            h = norm(h + a)
        start, end = self.span(h).unbind(-1)
        return {"start_logits": start, "end_logits": end}


torch.manual_seed(5)
model = SpanQA()
model.eval()
inputs = {"token_ids": torch.randint(1, 500, (4, 13), generator=torch.Generator().manual_seed(0))}
