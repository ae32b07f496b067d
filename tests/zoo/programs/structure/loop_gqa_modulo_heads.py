"""Grouped-query attention, one query head at a time, readable rather than quick."""

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_in, n_query_heads, n_kv_heads, d_head):
        super().__init__()
        self.n_query_heads = n_query_heads
        self.n_kv_heads = n_kv_heads
        self.d_head = d_head
        self.group_size = n_query_heads // n_kv_heads
        self.W_query = nn.Linear(d_in, n_query_heads * d_head, bias=False)
        self.W_key = nn.Linear(d_in, n_kv_heads * d_head, bias=False)
        self.W_value = nn.Linear(d_in, n_kv_heads * d_head, bias=False)
        self.out_proj = nn.Linear(n_query_heads * d_head, d_in, bias=False)

    def forward(self, x):
        b, num_tokens, _ = x.shape
        queries = self.W_query(x).view(b, num_tokens, self.n_query_heads, self.d_head)
        keys = self.W_key(x).view(b, num_tokens, self.n_kv_heads, self.d_head)
        values = self.W_value(x).view(b, num_tokens, self.n_kv_heads, self.d_head)
        mask = torch.triu(torch.ones(num_tokens, num_tokens, dtype=torch.bool), diagonal=1)
        contexts = []
        for h in range(self.n_query_heads):
            g = h % self.n_kv_heads  # fault: AS104
            scores = queries[:, :, h] @ keys[:, :, g].transpose(1, 2)
            scores = scores.masked_fill(mask, -torch.inf)
            weights = torch.softmax(scores / self.d_head**0.5, dim=-1)
            contexts.append(weights @ values[:, :, g])
        return self.out_proj(torch.cat(contexts, dim=-1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(120)
        return GroupedQueryAttention(d_in=34, n_query_heads=6, n_kv_heads=3, d_head=8)


def inputs():
    return torch.randn(2, 11, 34, generator=torch.Generator().manual_seed(121))


expect = {"causal": True}
