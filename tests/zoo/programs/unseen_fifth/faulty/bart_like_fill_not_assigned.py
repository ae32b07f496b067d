"""Denoising encoder in fairseq layout (T, B, C), padding mask given per batch."""
# also: AS208 AS202
import torch
import torch.nn as nn
import torch.nn.functional as F


class FairseqStyleAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query, key_padding_mask=None, need_weights=False):
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query) * self.scaling
        k, v = self.k_proj(query), self.v_proj(query)
        q, k, v = (t.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1) for t in (q, k, v))
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        if key_padding_mask is not None:
            attn_weights = attn_weights.view(bsz, self.num_heads, tgt_len, tgt_len)
            attn_weights.masked_fill(key_padding_mask.unsqueeze(1).unsqueeze(2), float("-inf"))  # fault: AS208|AS202
            attn_weights = attn_weights.view(bsz * self.num_heads, tgt_len, tgt_len)
        attn_probs = F.dropout(F.softmax(attn_weights, dim=-1), p=self.dropout, training=self.training)
        attn = torch.bmm(attn_probs, v).transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(attn)


class Denoiser(nn.Module):
    def __init__(self, num_tokens=170, dim=54, heads=6, padding_idx=1):
        super().__init__()
        self.padding_idx = padding_idx
        self.embed_tokens = nn.Embedding(num_tokens, dim, padding_idx)
        self.embed_positions = nn.Embedding(66, dim)
        self.self_attn = FairseqStyleAttention(dim, heads)
        self.layer_norm = nn.LayerNorm(dim)

    def forward(self, src_tokens):
        pad = src_tokens.eq(self.padding_idx)
        x = self.embed_tokens(src_tokens) + self.embed_positions.weight[2: src_tokens.size(1) + 2]
        x = x.transpose(0, 1)
        x = self.layer_norm(x + self.self_attn(x, key_padding_mask=pad))
        return x.transpose(0, 1)


with torch.random.fork_rng():
    torch.manual_seed(70)
    model = Denoiser().eval()
_t = torch.randint(4, 170, (3, 16), generator=torch.Generator().manual_seed(70))
_t[0, 12:] = 1
_t[1, 7:] = 1
inputs = (_t,)
expect = {"padding": "src_tokens pad=1"}
