"""Encoder-decoder in time-first layout with incremental state, after the old toolkit."""

import torch
import torch.nn.functional as F
from torch import nn


class MultiheadAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.dropout = dropout
        self.scaling = self.head_dim**-0.5
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None):
        """Returns the output and the weights of every head: (num_heads, bsz, tgt_len, src_len)."""
        tgt_len, bsz, embed_dim = query.size()
        src_len = key.size(0)
        q = self.q_proj(query) * self.scaling
        k, v = self.k_proj(key), self.v_proj(value)
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(src_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(src_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        if attn_mask is not None:
            attn_weights += attn_mask.unsqueeze(0)
        if key_padding_mask is not None:
            attn_weights = attn_weights.view(bsz, self.num_heads, tgt_len, src_len)
            attn_weights = attn_weights.masked_fill(key_padding_mask.unsqueeze(1).unsqueeze(2), float("-inf"))
            attn_weights = attn_weights.view(bsz * self.num_heads, tgt_len, src_len)
        attn_weights = F.softmax(attn_weights, dim=-1, dtype=torch.float32).type_as(attn_weights)
        attn_probs = F.dropout(attn_weights, p=self.dropout, training=self.training)
        attn = torch.bmm(attn_probs, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        attn_weights = attn_weights.view(bsz, self.num_heads, tgt_len, src_len).transpose(0, 1)
        return self.out_proj(attn), attn_weights


class Layer(nn.Module):
    def __init__(self, dim, heads, cross):
        super().__init__()
        self.self_attn = MultiheadAttention(dim, heads, 0.1)
        self.self_attn_layer_norm = nn.LayerNorm(dim)
        self.encoder_attn = MultiheadAttention(dim, heads, 0.1) if cross else None
        self.encoder_attn_layer_norm = nn.LayerNorm(dim) if cross else None
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)
        self.final_layer_norm = nn.LayerNorm(dim)

    def forward(self, x, padding=None, attn_mask=None, memory=None, memory_padding=None):
        x = self.self_attn_layer_norm(x + self.self_attn(x, x, x, padding, attn_mask)[0])
        weights = None
        if self.encoder_attn is not None:
            y, weights = self.encoder_attn(x, x, x, attn_mask=attn_mask)  # fault: AS107
            x = self.encoder_attn_layer_norm(x + y)
        return self.final_layer_norm(x + self.fc2(F.relu(self.fc1(x)))), weights


class TransformerModel(nn.Module):
    pad = 1

    def __init__(self, src=53, tgt=47, dim=30, heads=3):
        super().__init__()
        self.src_embed = nn.Embedding(src, dim, padding_idx=self.pad)
        self.tgt_embed = nn.Embedding(tgt, dim, padding_idx=self.pad)
        self.src_pos, self.tgt_pos = nn.Embedding(40, dim), nn.Embedding(40, dim)
        self.enc = nn.ModuleList([Layer(dim, heads, False), Layer(dim, heads, False)])
        self.dec = nn.ModuleList([Layer(dim, heads, True), Layer(dim, heads, True)])
        self.output = nn.Linear(dim, tgt)

    def forward(self, src_tokens, prev_output_tokens):
        padding = src_tokens.eq(self.pad)
        m = self.src_embed(src_tokens) + self.src_pos.weight[: src_tokens.size(1)]
        m = m.transpose(0, 1)
        for layer in self.enc:
            m, _ = layer(m, padding)
        t = prev_output_tokens.size(1)
        future = torch.triu(torch.full((t, t), float("-inf")), 1)
        x = (self.tgt_embed(prev_output_tokens) + self.tgt_pos.weight[:t]).transpose(0, 1)
        for layer in self.dec:
            x, attn = layer(x, attn_mask=future, memory=m, memory_padding=padding)
        return self.output(x.transpose(0, 1)), {"attn": attn}


torch.manual_seed(1)
model = TransformerModel().eval()
src = torch.randint(4, 53, (4, 12))
for i, n in enumerate((12, 7, 10, 5)):
    src[i, n:] = TransformerModel.pad
inputs = {"src_tokens": src, "prev_output_tokens": torch.randint(4, 47, (4, 9))}
expect = {"causal": True, "padding": "src_tokens pad=1"}
# also: AS208 AS903 AS902 AS803
