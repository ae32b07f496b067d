"""Multi-head attention with an optional mask (True = block), drop-in for encoder and decoder."""

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, model_dim=45, num_heads=5):
        super().__init__()
        self.dim_per_head = model_dim // num_heads
        self.num_heads = num_heads
        self.linear_k = nn.Linear(model_dim, self.dim_per_head * num_heads)
        self.linear_v = nn.Linear(model_dim, self.dim_per_head * num_heads)
        self.linear_q = nn.Linear(model_dim, self.dim_per_head * num_heads)
        self.linear_final = nn.Linear(model_dim, model_dim)
        self.layer_norm = nn.LayerNorm(model_dim)

    def forward(self, key, value, query, attn_mask=None):
        residual = query
        bs = key.size(0)
        key = self.linear_k(key).view(bs, -1, self.num_heads, self.dim_per_head).transpose(1, 2)
        value = self.linear_v(value).view(bs, -1, self.num_heads, self.dim_per_head).transpose(1, 2)
        query = self.linear_q(query).view(bs, -1, self.num_heads, self.dim_per_head).transpose(1, 2)
        attention = torch.matmul(query, key.transpose(2, 3)) * self.dim_per_head**-0.5
        if attn_mask is not None:
            attention.masked_fill(attn_mask.unsqueeze(1), float("-inf"))  # fault: AS208
        attention = attention.softmax(dim=-1)
        context = torch.matmul(attention, value).transpose(1, 2).reshape(bs, -1, residual.size(-1))
        return self.layer_norm(residual + self.linear_final(context)), attention


with torch.random.fork_rng():
    torch.manual_seed(45)
    model = MultiHeadAttention().eval()


def inputs():
    g = torch.Generator().manual_seed(45)
    memory = torch.randn(3, 11, 45, generator=g)
    blocked = torch.arange(11)[None, None, :] >= torch.tensor([11, 6, 9])[:, None, None]
    return {
        "key": memory,
        "value": memory,
        "query": torch.randn(3, 7, 45, generator=g),
        "attn_mask": blocked.expand(3, 7, 11),
    }
