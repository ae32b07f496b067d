"""Question encoder with padding masks, batch-first, post-norm."""

import math

import torch
from torch import nn


def attention(query, key, value, mask):
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(query.size(-1))
    p_attn = torch.softmax(scores, dim=-1)
    p_attn = p_attn * mask[:, None, None, :]  # fault: AS204
    return torch.einsum("bhqk,bkhd->bqhd", p_attn, value), p_attn


class QuestionEncoder(nn.Module):
    def __init__(self, vocab=66, d_model=44, heads=4, answers=9):
        super().__init__()
        self.heads = heads
        self.emb = nn.Embedding(vocab, d_model, padding_idx=0)
        self.pos = nn.Parameter(0.1 * torch.randn(30, d_model))
        self.wq, self.wk = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.wv, self.wo = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 70), nn.ReLU(), nn.Linear(70, d_model))
        self.answer = nn.Linear(d_model, answers)

    def forward(self, question, question_mask):
        x = self.emb(question) + self.pos[: question.size(1)]
        q, k, v = (w(x).unflatten(2, (self.heads, -1)) for w in (self.wq, self.wk, self.wv))
        ctx, _ = attention(q, k, v, question_mask)
        x = self.ln1(x + self.wo(ctx.flatten(2)))
        x = self.ln2(x + self.ff(x))
        return self.answer(x[:, 0])


with torch.random.fork_rng():
    torch.manual_seed(10)
    model = QuestionEncoder().eval()


def inputs():
    m = (torch.arange(9)[None, :] < torch.tensor([9, 4, 6, 7, 3])[:, None]).float()
    q = torch.randint(1, 66, (5, 9), generator=torch.Generator().manual_seed(4))
    return {"question": q * m.long(), "question_mask": m}


expect = {"padding": "question_mask keep"}
