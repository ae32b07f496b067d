"""Music decoder that works on (time, batch, width) inside its attention."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class FusedSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        x = x.transpose(0, 1)
        seqlen, bsz, d_model = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q = q.view(seqlen, bsz, self.n_heads, self.d_head).permute(1, 2, 0, 3)
        k = k.view(seqlen, bsz, self.n_heads, self.d_head).permute(1, 2, 0, 3)
        v = v.view(seqlen, bsz, self.n_heads, self.d_head).permute(1, 2, 0, 3)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.permute(2, 0, 1, 3).reshape(seqlen, bsz, d_model)
        return self.out_proj(y).transpose(0, 1)


class MusicDecoder(nn.Module):
    def __init__(self, n_tokens=73, d_model=48, n_heads=6, n_blocks=2):
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, d_model)
        self.time = nn.Embedding(64, d_model)
        self.attn = nn.ModuleList(FusedSelfAttention(d_model, n_heads) for _ in range(n_blocks))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, 2 * d_model), nn.SiLU(), nn.Linear(2 * d_model, d_model))
            for _ in range(n_blocks)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(n_blocks))
        self.head = nn.Linear(d_model, n_tokens)

    def forward(self, tokens):
        h = self.tokens(tokens) + self.time(torch.arange(tokens.shape[1]))
        for norm, attn, ffn in zip(self.norms, self.attn, self.ffn):
            h = h + attn(norm(h))
            h = h + ffn(h)
        return self.head(h)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(40)
        return MusicDecoder().eval()


def inputs():
    return {"tokens": torch.randint(0, 73, (4, 19), generator=torch.Generator().manual_seed(41))}
