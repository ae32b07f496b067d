"""Long-horizon forecaster in the Informer code layout (B, L, H, E)."""

from math import sqrt

import torch
import torch.nn as nn


class TriangularCausalMask:
    def __init__(self, B, L, device="cpu"):
        with torch.no_grad():
            self._mask = torch.triu(torch.ones([B, 1, L, L], dtype=torch.bool), diagonal=1).to(device)

    @property
    def mask(self):
        return self._mask


class FullAttention(nn.Module):
    def __init__(self, mask_flag=True, scale=None, attention_dropout=0.1):
        super().__init__()
        self.scale = scale
        self.mask_flag = mask_flag
        self.dropout = nn.Dropout(attention_dropout)

    def forward(self, queries, keys, values):
        B, L, H, E = queries.shape
        scale = self.scale or 1.0 / sqrt(E)
        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        if self.mask_flag:
            scores = scores.masked_fill(TriangularCausalMask(B, L, queries.device).mask, float("-inf"))
        A = self.dropout(torch.softmax(scale * scores, dim=-1))
        return torch.einsum("bhls,bshd->blhd", A, values).contiguous()


class AttentionLayer(nn.Module):
    def __init__(self, attention, d_model, n_heads):
        super().__init__()
        self.inner_attention = attention
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.out_projection = nn.Linear(d_model, d_model)
        self.n_heads = n_heads

    def forward(self, queries, keys, values):
        B, L, _ = queries.shape
        _, S, _ = keys.shape
        H = self.n_heads
        queries = self.query_projection(queries).view(B, L, H, -1)
        keys = self.key_projection(keys).view(B, S, H, -1)
        values = self.value_projection(values).view(B, S, H, -1)
        out = self.inner_attention(queries, keys, values)
        return self.out_projection(out.view(B, L, -1))


class Forecaster(nn.Module):
    def __init__(self, enc_in=7, d_model=42, n_heads=6, seq_len=24, c_out=7):
        super().__init__()
        self.value_embedding = nn.Linear(enc_in, d_model)
        self.temporal = nn.Parameter(torch.randn(seq_len, d_model) * 0.2)
        self.attention = AttentionLayer(FullAttention(mask_flag=True), d_model, n_heads)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.conv1 = nn.Conv1d(d_model, 64, 1)
        self.conv2 = nn.Conv1d(64, d_model, 1)
        self.projection = nn.Linear(d_model, c_out)

    def forward(self, x_enc):
        x = self.value_embedding(x_enc) + self.temporal[: x_enc.shape[1]]
        x = self.norm1(x + self.attention(x, x, x))
        y = self.conv2(torch.relu(self.conv1(x.transpose(-1, 1)))).transpose(-1, 1)
        return self.projection(self.norm2(x + y))


torch.manual_seed(2024)
model = Forecaster().eval()
inputs = torch.randn(8, 24, 7)
expect = {"causal": True}
