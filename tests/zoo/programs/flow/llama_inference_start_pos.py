"""Inference code after Llama's reference: caches in the module, start_pos from the caller."""
import math
import torch
from torch import nn
import torch.nn.functional as F


def precompute(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
    t = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(t), t)


def apply_rotary_emb(xq, xk, freqs_cis):
    q_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    k_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    f = freqs_cis.view(1, xq.shape[1], 1, -1)
    return torch.view_as_real(q_ * f).flatten(3).type_as(xq), torch.view_as_real(k_ * f).flatten(3).type_as(xk)


class Attention(nn.Module):
    def __init__(self, dim, n_heads, n_kv):
        super().__init__()
        self.n_heads, self.n_kv, self.hd = n_heads, n_kv, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wv = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.cache_k = torch.zeros(4, 32, n_kv, self.hd)
        self.cache_v = torch.zeros(4, 32, n_kv, self.hd)

    def forward(self, x, start_pos, freqs_cis, mask):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.hd)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv, self.hd)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv, self.hd)
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis)
        self.cache_k = self.cache_k.to(xq)
        self.cache_v = self.cache_v.to(xq)
        self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk
        self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv
        keys = self.cache_k[:bsz, : start_pos + seqlen]
        values = self.cache_v[:bsz, : start_pos + seqlen]
        keys = keys.repeat_interleave(self.n_heads // self.n_kv, dim=2).transpose(1, 2)
        values = values.repeat_interleave(self.n_heads // self.n_kv, dim=2).transpose(1, 2)
        xq = xq.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.hd)
        if mask is not None:
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        out = torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(out)


class Transformer(nn.Module):
    def __init__(self, vocab=53, dim=32, n_layers=2, n_heads=4, n_kv=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Attention(dim, n_heads, n_kv) for _ in range(n_layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(n_layers))
        self.out = nn.Linear(dim, vocab, bias=False)
        self.freqs_cis = precompute(dim // n_heads, 64)

    @torch.inference_mode()
    def forward(self, tokens: torch.Tensor, start_pos: int):
        _bsz, seqlen = tokens.shape
        h = self.emb(tokens)
        freqs_cis = self.freqs_cis[start_pos : start_pos + seqlen]
        mask = None
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"))
            mask = torch.triu(mask, diagonal=1)
            mask = torch.hstack([torch.zeros((seqlen, start_pos)), mask]).type_as(h)
        for layer, norm in zip(self.layers, self.norms):
            h = h + layer(norm(h), start_pos, freqs_cis, mask)
        return self.out(h)


torch.manual_seed(0)
model = Transformer().eval()
inputs = (torch.randint(0, 53, (2, 10)), 0)
expect = {"causal": True, "cache": "self"}
