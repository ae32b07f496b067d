"""Grouped-query attention that widens keys and values by hand, https://github.com/onnx/onnx/pull/7274."""

import torch
import torch.nn.functional as F
from torch import nn


class GQA(nn.Module):
    def __init__(self, dim: int, n_heads: int, n_kv_heads: int):
        super().__init__()
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        n_rep = self.n_heads // self.n_kv_heads
        xk = xk.repeat(1, 1, n_rep, 1)  # fault: AS104
        xv = xv.repeat(1, 1, n_rep, 1)  # fault: AS104
        xq, xk, xv = (t.transpose(1, 2) for t in (xq, xk, xv))
        out = F.scaled_dot_product_attention(xq, xk, xv, is_causal=True)
        return self.wo(out.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


class Decoder(nn.Module):
    def __init__(self, vocab=101, dim=48, n_heads=6, n_kv_heads=3, depth=2):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.pos_embeddings = nn.Embedding(48, dim)
        self.attention = nn.ModuleList([GQA(dim, n_heads, n_kv_heads) for _ in range(depth)])
        self.norm = nn.ModuleList([nn.RMSNorm(dim) for _ in range(depth)])
        self.output = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens) + self.pos_embeddings.weight[: tokens.size(1)]
        for norm, attn in zip(self.norm, self.attention):
            h = h + attn(norm(h))
        return self.output(h)


with torch.random.fork_rng():
    torch.manual_seed(7274)
    model = Decoder().eval()
    inputs = torch.randint(0, 101, (2, 10))
expect = {"causal": True}
