"""Relative-position attention of a conformer (Transformer-XL form with the shift trick and two position biases)."""
import math

import torch
import torch.nn as nn


class RelPositionMultiHeadedAttention(nn.Module):
    def __init__(self, n_head=4, n_feat=32):
        super().__init__()
        self.h, self.d_k = n_head, n_feat // n_head
        self.linear_q, self.linear_k, self.linear_v, self.linear_out = (nn.Linear(n_feat, n_feat) for _ in range(4))
        self.linear_pos = nn.Linear(n_feat, n_feat, bias=False)
        self.pos_bias_u, self.pos_bias_v = (nn.Parameter(torch.empty(self.h, self.d_k)) for _ in range(2))
        nn.init.xavier_uniform_(self.pos_bias_u)
        nn.init.xavier_uniform_(self.pos_bias_v)

    def rel_shift(self, x):
        zero_pad = torch.zeros((*x.size()[:3], 1), device=x.device, dtype=x.dtype)
        x_padded = torch.cat([zero_pad, x], dim=-1).view(*x.size()[:2], x.size(3) + 1, x.size(2))
        return x_padded[:, :, 1:].view_as(x)[:, :, :, : x.size(-1) // 2 + 1]

    def forward(self, x, pos_emb, mask):
        n = x.size(0)
        q = self.linear_q(x).view(n, -1, self.h, self.d_k)
        k = self.linear_k(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
        p = self.linear_pos(pos_emb).view(1, -1, self.h, self.d_k).transpose(1, 2)
        ac = torch.matmul((q + self.pos_bias_u).transpose(1, 2), k.transpose(-2, -1))
        bd = self.rel_shift(torch.matmul((q + self.pos_bias_v).transpose(1, 2), p.transpose(-2, -1)))
        scores = (ac + bd) / math.sqrt(self.d_k)
        mask = mask.unsqueeze(1).eq(0)
        attn = torch.softmax(scores.masked_fill(mask, torch.finfo(scores.dtype).min), -1).masked_fill(mask, 0.0)
        return self.linear_out(torch.matmul(attn, v).transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))


class Encoder(nn.Module):
    def __init__(self, feats=10, d=32):
        super().__init__()
        self.inp, self.norm, self.att = nn.Linear(feats, d), nn.LayerNorm(d), RelPositionMultiHeadedAttention(4, d)

    def pos(self, t, d):
        r = torch.arange(t - 1, -t, -1.0).unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2).float() * -(math.log(10000.0) / d))
        return torch.stack([torch.sin(r * div), torch.cos(r * div)], -1).flatten(1).unsqueeze(0)

    def forward(self, xs, xs_lens):
        x = self.inp(xs)
        mask = (torch.arange(xs.size(1))[None] < xs_lens[:, None]).unsqueeze(1)
        return x + self.att(self.norm(x), self.pos(x.size(1), x.size(2)), mask)


with torch.random.fork_rng():
    torch.manual_seed(30)
    model = Encoder().eval()
inputs = {"xs": torch.randn(3, 18, 10, generator=torch.Generator().manual_seed(30)), "xs_lens": torch.tensor([18, 11, 14])}
expect = {"padding": "xs_lens lengths"}
