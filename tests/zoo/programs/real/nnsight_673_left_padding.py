"""Batched tracing of left-padded prompts and learned positions, https://github.com/ndif-team/nnsight/pull/673."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, embed, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(embed, embed)
        self.k = nn.Linear(embed, embed)
        self.v = nn.Linear(embed, embed)
        self.o = nn.Linear(embed, embed)

    def forward(self, x, bias):
        b, t, e = x.shape
        q, k, v = (f(x).reshape(b, t, self.heads, -1).permute(0, 2, 1, 3) for f in (self.q, self.k, self.v))
        w = torch.einsum("bhqd,bhkd->bhqk", q, k) / (e // self.heads) ** 0.5 + bias
        y = torch.einsum("bhqk,bhkd->bqhd", w.softmax(-1), v)
        return self.o(y.flatten(2))


class CausalLM(nn.Module):
    def __init__(self, vocab=73, embed=45, heads=3, depth=2, context=32):
        super().__init__()
        self.wte = nn.Embedding(vocab, embed)
        self.wpe = nn.Embedding(context, embed)
        self.attn = nn.ModuleList([Attention(embed, heads) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(embed) for _ in range(depth)])
        self.lm_head = nn.Linear(embed, vocab)

    def forward(self, input_ids, attention_mask):
        t = input_ids.shape[1]
        position_ids = torch.arange(t).unsqueeze(0)  # fault: AS504
        h = self.wte(input_ids) + self.wpe(position_ids)  # fault: AS504
        visible = torch.ones(t, t).tril().bool() & attention_mask[:, None, :].bool()
        visible = visible | torch.eye(t, dtype=torch.bool)
        bias = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(h.dtype).min)[:, None]
        for ln, attn in zip(self.ln, self.attn):
            h = h + attn(ln(h), bias)
        return self.lm_head(h)


with torch.random.fork_rng():
    torch.manual_seed(673)
    model = CausalLM().eval()
    ids = torch.randint(2, 73, (3, 10))
    mask = (torch.arange(10) >= torch.tensor([[0], [4], [6]])).long()
    inputs = {"input_ids": ids * mask, "attention_mask": mask}
expect = {"causal": True, "padding": "attention_mask keep"}
