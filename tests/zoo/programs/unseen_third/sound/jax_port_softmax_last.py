"""Haiku transformer moved to torch line by line."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHeadAttention(nn.Module):
    """hk.MultiHeadAttention"""

    def __init__(self, num_heads, key_size, model_size):
        super().__init__()
        self.num_heads, self.key_size, self.model_size = num_heads, key_size, model_size
        self.query_w = nn.Parameter(torch.empty(model_size, num_heads * key_size).normal_(std=1 / np.sqrt(model_size)))
        self.key_w = nn.Parameter(torch.empty(model_size, num_heads * key_size).normal_(std=1 / np.sqrt(model_size)))
        self.value_w = nn.Parameter(torch.empty(model_size, num_heads * key_size).normal_(std=1 / np.sqrt(model_size)))
        self.out_w = nn.Parameter(torch.empty(num_heads * key_size, model_size).normal_(std=1 / np.sqrt(num_heads * key_size)))

    def _linear_projection(self, x, w):
        y = x @ w
        return y.reshape(*x.shape[:-1], self.num_heads, self.key_size)

    def forward(self, query, key, value, mask=None):
        query_heads = self._linear_projection(query, self.query_w)
        key_heads = self._linear_projection(key, self.key_w)
        value_heads = self._linear_projection(value, self.value_w)
        attn_logits = torch.einsum("...thd,...Thd->...htT", query_heads, key_heads)
        attn_logits = attn_logits / np.sqrt(self.key_size).astype(np.float32)
        if mask is not None:
            attn_logits = torch.where(mask, attn_logits, torch.tensor(-1e30))
        attn_weights = F.softmax(attn_logits, -1)
        attn = torch.einsum("...htT,...Thd->...thd", attn_weights, value_heads)
        return attn.reshape(*query.shape[:-1], -1) @ self.out_w


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mha = MultiHeadAttention(3, 10, 30)

    def forward(self, x):
        return x + self.mha(x, x, x)


torch.manual_seed(0)
model = Net().eval()
inputs = torch.randn(2, 8, 30, generator=torch.Generator().manual_seed(3))
