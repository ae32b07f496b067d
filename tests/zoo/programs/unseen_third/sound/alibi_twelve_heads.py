"""MPT-like causal model with ALiBi, six heads, slopes for a non power of two."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def gen_slopes(n_heads, alibi_bias_max=8):
    m = 2 ** math.ceil(math.log2(n_heads))
    s = 1.0 / torch.pow(2, torch.arange(1, m + 1) * alibi_bias_max / m)
    if m != n_heads:
        s = torch.cat([s[1::2], s[::2]])[:n_heads]
    return s.view(1, n_heads, 1, 1)


class MPTBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.norm_1, self.norm_2 = nn.LayerNorm(d, bias=False), nn.LayerNorm(d, bias=False)
        self.Wqkv, self.out_proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.up, self.down = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

    def forward(self, x, bias):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.Wqkv(self.norm_1(x)).chunk(3, dim=2))
        x = x + self.out_proj(F.scaled_dot_product_attention(q, k, v, attn_mask=bias).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class MPT(nn.Module):
    def __init__(self, vocab_size=83, d=36, h=6, n=2):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, d)
        self.register_buffer("slopes", gen_slopes(h), persistent=False)
        self.blocks = nn.ModuleList(MPTBlock(d, h) for _ in range(n))
        self.norm_f = nn.LayerNorm(d, bias=False)

    def forward(self, input_ids):
        n = input_ids.size(1)
        bias = self.slopes * torch.arange(1 - n, 1).view(1, 1, 1, n)
        bias = bias.expand(-1, -1, n, -1).masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), torch.finfo(torch.float32).min)
        x = self.wte(input_ids)
        for blk in self.blocks:
            x = blk(x, bias)
        return F.linear(self.norm_f(x), self.wte.weight)


torch.manual_seed(0)
model = MPT().eval()
