"""Simple transformer wrapper with optional memory tokens, null key/value and key mask."""

from functools import partial

import torch
from torch import nn, einsum


def exists(val):
    return val is not None


def default(val, d):
    return val if exists(val) else d


def split_heads(t, h):
    return t.unflatten(-1, (h, -1)).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, dim, dim_head=16, heads=4, causal=False, dropout=0.):
        super().__init__()
        self.scale = dim_head ** -0.5
        self.heads = heads
        self.causal = causal
        inner_dim = dim_head * heads
        self.norm = nn.LayerNorm(dim)
        self.null_kv = nn.Parameter(torch.randn(2, heads, dim_head))
        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(dim, inner_dim * 2, bias=False)
        self.attn_dropout = nn.Dropout(dropout)
        self.to_out = nn.Linear(inner_dim, dim, bias=False)

    def forward(self, x, context=None, mask=None):
        b, n, h, device = *x.shape[:2], self.heads, x.device
        x = self.norm(x)
        kv_input = default(context, x)
        q, k, v = map(partial(split_heads, h=h), (self.to_q(x), *self.to_kv(kv_input).chunk(2, dim=-1)))

        nk, nv = (t[None, :, None].expand(b, -1, -1, -1) for t in self.null_kv)
        k, v = torch.cat((nk, k), dim=-2), torch.cat((nv, v), dim=-2)

        sim = einsum('b h i d, b h j d -> b h i j', q * self.scale, k)
        mask_value = torch.finfo(sim.dtype).tiny  # fault: AS207
        if exists(mask):
            mask = nn.functional.pad(mask, (1, 0), value=True)
            sim = sim.masked_fill(~mask[:, None, None, :], mask_value)  # fault: AS207
        if self.causal:
            i, j = sim.shape[-2:]
            causal_mask = torch.ones((i, j), dtype=torch.bool, device=device).triu(j - i + 1)
            sim = sim.masked_fill(causal_mask, mask_value)  # fault: AS207

        attn = sim.softmax(dim=-1)
        attn = self.attn_dropout(attn)
        out = einsum('b h i j, b h j d -> b h i d', attn, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


def FeedForward(dim, mult=2):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * mult), nn.GELU(), nn.Linear(dim * mult, dim))


class Transformer(nn.Module):
    def __init__(self, *, num_tokens, dim, depth, max_seq_len=64, causal=True, dropout=0.):
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens, dim)
        self.pos_emb = nn.Embedding(max_seq_len, dim)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                Attention(dim, causal=causal, dropout=dropout),
                FeedForward(dim)
            ]))
        self.to_logits = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_tokens))

    def forward(self, x, mask=None):
        x = self.token_emb(x) + self.pos_emb(torch.arange(x.shape[1], device=x.device))
        for attn, ff in self.layers:
            x = attn(x, mask=mask) + x
            x = ff(x) + x
        return self.to_logits(x)


torch.manual_seed(69)
model = Transformer(num_tokens=111, dim=44, depth=2, dropout=0.1).eval()
mask = torch.ones(3, 15).bool()
mask[0, 9:] = False
mask[2, 12:] = False
inputs = dict(x=torch.randint(0, 111, (3, 15)), mask=mask)
expect = dict(causal=True, padding='mask keep')
# also: AS201 AS202
