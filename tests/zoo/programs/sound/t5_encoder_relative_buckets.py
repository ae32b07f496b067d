"""T5 encoder stack: bucketed relative bias in the first layer, shared by all, no scaling of scores."""

import math

import torch
from torch import nn


class T5LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def relative_position_bucket(relative_position, num_buckets=16, max_distance=40):
    num_buckets //= 2
    buckets = (relative_position > 0).long() * num_buckets
    n = relative_position.abs()
    max_exact = num_buckets // 2
    large = max_exact + (
        torch.log(n.float().clamp(min=1) / max_exact)
        / math.log(max_distance / max_exact)
        * (num_buckets - max_exact)
    ).long()
    large = large.clamp(max=num_buckets - 1)
    return buckets + torch.where(n < max_exact, n, large)


class T5Attention(nn.Module):
    def __init__(self, d_model, d_kv, n_heads, has_bias):
        super().__init__()
        self.h, self.d_kv = n_heads, d_kv
        inner = n_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model**-0.5)
        nn.init.normal_(self.v.weight, std=d_model**-0.5)
        nn.init.normal_(self.o.weight, std=inner**-0.5)
        self.relative_attention_bias = nn.Embedding(16, n_heads) if has_bias else None

    def compute_bias(self, length):
        ctx = torch.arange(length)[:, None]
        mem = torch.arange(length)[None, :]
        return self.relative_attention_bias(relative_position_bucket(mem - ctx)).permute(2, 0, 1)[None]

    def forward(self, hidden, mask, position_bias=None):
        bsz, length, _ = hidden.shape

        def shape(states):
            return states.view(bsz, -1, self.h, self.d_kv).transpose(1, 2)

        q, k, v = shape(self.q(hidden)), shape(self.k(hidden)), shape(self.v(hidden))
        if position_bias is None:
            position_bias = self.compute_bias(length) + mask
        scores = torch.matmul(q, k.transpose(3, 2))
        scores = scores + position_bias
        weights = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        out = torch.matmul(weights, v).transpose(1, 2).contiguous().view(bsz, -1, self.h * self.d_kv)
        return self.o(out), position_bias


class T5Block(nn.Module):
    def __init__(self, d_model, d_kv, heads, has_bias):
        super().__init__()
        self.ln1, self.ln2 = T5LayerNorm(d_model), T5LayerNorm(d_model)
        self.attn = T5Attention(d_model, d_kv, heads, has_bias)
        self.wi = nn.Linear(d_model, 2 * d_model, bias=False)
        self.wo = nn.Linear(2 * d_model, d_model, bias=False)

    def forward(self, x, mask, bias):
        y, bias = self.attn(self.ln1(x), mask, bias)
        x = x + y
        return x + self.wo(torch.relu(self.wi(self.ln2(x)))), bias


class T5Encoder(nn.Module):
    def __init__(self, vocab=83, d_model=40, d_kv=12, heads=3, layers=3):
        super().__init__()
        self.shared = nn.Embedding(vocab, d_model)
        self.block = nn.ModuleList(T5Block(d_model, d_kv, heads, i == 0) for i in range(layers))
        self.final = T5LayerNorm(d_model)

    def forward(self, input_ids, attention_mask):
        x = self.shared(input_ids)
        extended = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        bias = None
        for block in self.block:
            x, bias = block(x, extended, bias)
        return self.final(x)


with torch.random.fork_rng():
    torch.manual_seed(5)
    model = T5Encoder().eval()

inputs = {
    "input_ids": torch.randint(1, 83, (2, 14), generator=torch.Generator().manual_seed(0)),
    "attention_mask": (torch.arange(14)[None] < torch.tensor([[14], [9]])).long(),
}
expect = {"padding": "attention_mask keep"}
