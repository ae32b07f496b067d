"""Multi-head attention for a from-scratch translation model, https://github.com/jsbaan/transformer-from-scratch/issues/4."""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, hidden_dim=40, num_heads=5):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.num_heads = num_heads
        self.qkv_dim = hidden_dim // num_heads
        self.qkv_proj = nn.Linear(hidden_dim, 3 * hidden_dim, bias=False)
        self.o_proj = nn.Linear(hidden_dim, hidden_dim, bias=False)

    def forward(self, x, src_padding_mask=None, future_mask=None):
        """src_padding_mask: (batch, length), True for words; future_mask: (length, length), True for the past."""
        batch_size, sequence_length, hidden_dim = x.size()
        qkv = self.qkv_proj(x)
        qkv = qkv.reshape(batch_size, sequence_length, self.num_heads, 3 * self.qkv_dim)
        qkv = qkv.permute(0, 2, 1, 3)
        q, k, v = qkv.chunk(3, dim=-1)
        values, attn = self.scaled_dot_product(q, k, v, src_padding_mask, future_mask)
        values = values.reshape(batch_size, sequence_length, hidden_dim)  # fault: AS103
        return self.o_proj(values)

    def scaled_dot_product(self, q, k, v, src_padding_mask, future_mask):
        attn_logits = torch.matmul(q, torch.transpose(k, -2, -1)) / math.sqrt(q.size(-1))
        if src_padding_mask is not None:
            attn_logits = attn_logits.masked_fill(~src_padding_mask[:, None, None, :], float("-inf"))
        if future_mask is not None:
            attn_logits = attn_logits.masked_fill(~future_mask, float("-inf"))
        attention = torch.softmax(attn_logits, dim=-1)
        return torch.matmul(attention, v), attention


# also: AS202
with torch.random.fork_rng():
    torch.manual_seed(4)
    model = MultiHeadAttention().eval()
    inputs = {
        "x": torch.randn(3, 7, 40),
        "src_padding_mask": torch.arange(7) < torch.tensor([[7], [5], [4]]),
    }
expect = {"padding": "src_padding_mask keep"}
