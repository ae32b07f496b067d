"""Generative forecaster: encoder on history, decoder on the shifted target."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from math import sqrt


class FullAttention(nn.Module):
    def __init__(self, mask_flag=True, scale=None, attention_dropout=0.1, output_attention=False):
        super(FullAttention, self).__init__()
        self.scale = scale
        self.mask_flag = mask_flag
        self.output_attention = output_attention
        self.dropout = nn.Dropout(attention_dropout)

    def forward(self, queries, keys, values, attn_mask):
        B, L, H, E = queries.shape
        _, S, _, D = values.shape
        scale = self.scale or 1. / sqrt(E)
        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        if self.mask_flag and attn_mask is not None:
            scores.masked_fill_(attn_mask, float("-inf"))
        A = self.dropout(torch.softmax(scale * scores, dim=-1))
        V = torch.einsum("bhls,bshd->blhd", A, values)
        return V.contiguous(), (A if self.output_attention else None)


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
        queries = self.query_projection(queries).view(B, L, H, -1)
        keys = self.key_projection(keys).view(B, S, H, -1)
        values = self.value_projection(values).view(B, S, H, -1)
        out, attn = self.inner_attention(queries, keys, values, attn_mask)
        return self.out_projection(out.view(B, L, -1)), attn


class DecoderLayer(nn.Module):
    def __init__(self, self_attention, cross_attention, d_model, dropout=0.1):
        super().__init__()
        self.self_attention = self_attention
        self.cross_attention = cross_attention
        self.conv1 = nn.Conv1d(d_model, 2 * d_model, 1)
        self.conv2 = nn.Conv1d(2 * d_model, d_model, 1)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, cross, x_mask=None, cross_mask=None):
        x = x + self.dropout(self.self_attention(x, x, x, attn_mask=x_mask)[0])
        x = self.norm1(x)
        x = x + self.dropout(self.cross_attention(x, cross, cross, attn_mask=cross_mask)[0])
        y = x = self.norm2(x)
        y = self.conv2(F.relu(self.conv1(y.transpose(-1, 1)))).transpose(-1, 1)
        return self.norm3(x + y)


class Model(nn.Module):
    def __init__(self, enc_in=3, d_model=32, n_heads=4, e_layers=1, d_layers=2):
        super().__init__()
        self.enc_embed = nn.Linear(enc_in, d_model)
        self.dec_embed = nn.Linear(enc_in, d_model)
        self.pos = nn.Embedding(128, d_model)
        mk = lambda flag: AttentionLayer(FullAttention(flag), d_model, n_heads)
        self.encoder = nn.ModuleList([mk(False) for _ in range(e_layers)])
        self.enc_norm = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(e_layers)])
        self.decoder = nn.ModuleList([DecoderLayer(mk(True), mk(False), d_model) for _ in range(d_layers)])
        self.projection = nn.Linear(d_model, enc_in)

    def embed(self, f, x):
        return f(x) + self.pos(torch.arange(x.shape[1], device=x.device))

    def forward(self, x_enc, x_dec, dec_self_mask=None):
        enc = self.embed(self.enc_embed, x_enc)
        for layer, norm in zip(self.encoder, self.enc_norm):
            enc = norm(enc + layer(enc, enc, enc)[0])
        dec = self.embed(self.dec_embed, x_dec)
        if dec_self_mask is None:
            L = x_dec.shape[1]
            dec_self_mask = torch.triu(torch.ones(L, L, dtype=torch.bool, device=x_dec.device), diagonal=1)
        for layer in self.decoder:
            dec = layer(dec, enc, x_mask=dec_self_mask)
        return self.projection(dec)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(2021)
        return Model().float().eval()


def inputs():
    g = torch.Generator().manual_seed(2022)
    return {"x_enc": torch.randn(2, 13, 3, generator=g), "x_dec": torch.randn(2, 8, 3, generator=g)}


expect = {"causal": True}
