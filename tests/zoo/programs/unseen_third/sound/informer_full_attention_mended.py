"""Informer-like decoder self-attention for forecasting: einsum over (batch, length, heads, width)."""
from math import sqrt

import numpy as np
import torch
import torch.nn as nn


class TriangularCausalMask:
    def __init__(self, B, L, device="cpu"):
        mask_shape = [B, 1, L, L]
        with torch.no_grad():
            self._mask = torch.triu(torch.ones(mask_shape, dtype=torch.bool), diagonal=1).to(device)

    @property
    def mask(self):
        return self._mask


class FullAttention(nn.Module):
    def __init__(self, mask_flag=True, factor=5, scale=None, attention_dropout=0.1, output_attention=False):
        super().__init__()
        self.scale = scale
        self.mask_flag = mask_flag
        self.output_attention = output_attention
        self.dropout = nn.Dropout(attention_dropout)

    def forward(self, queries, keys, values, attn_mask):
        B, L, H, E = queries.shape
        _, S, _, D = values.shape
        scale = self.scale or 1.0 / sqrt(E)
        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        if self.mask_flag:
            if attn_mask is None:
                attn_mask = TriangularCausalMask(B, L, device=queries.device)
            scores.masked_fill_(attn_mask.mask, -np.inf)
        A = self.dropout(torch.softmax(scale * scores, dim=-1))
        V = torch.einsum("bhls,bshd->blhd", A, values)
        return (V.contiguous(), A) if self.output_attention else (V.contiguous(), None)


class AttentionLayer(nn.Module):
    def __init__(self, attention, d_model, n_heads):
        super().__init__()
        self.inner_attention = attention
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.out_projection = nn.Linear(d_model, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values, attn_mask=None):
        B, L, _ = queries.shape
        _, S, _ = keys.shape
        H = self.n_heads
        q = self.query_projection(queries).view(B, L, H, -1)
        k = self.key_projection(keys).view(B, S, H, -1)
        v = self.value_projection(values).view(B, S, H, -1)
        out, attn = self.inner_attention(q, k, v, attn_mask)
        return self.out_projection(out.view(B, L, -1)), attn


class Forecaster(nn.Module):
    def __init__(self, c_in=7, d_model=32):
        super().__init__()
        self.value_embedding = nn.Linear(c_in, d_model)
        self.pe = nn.Parameter(0.2 * torch.randn(1, 48, d_model))
        self.attn = AttentionLayer(FullAttention(True), d_model, 4)
        self.norm = nn.LayerNorm(d_model)
        self.proj = nn.Linear(d_model, c_in)

    def forward(self, x_dec):
        x = self.value_embedding(x_dec) + self.pe[:, : x_dec.size(1)]
        new_x, _ = self.attn(x, x, x)
        return self.proj(self.norm(x + new_x))


with torch.random.fork_rng():
    torch.manual_seed(2021)
    model = Forecaster().eval()
inputs = (torch.randn(3, 19, 7, generator=torch.Generator().manual_seed(7)),)
expect = {"causal": True}
