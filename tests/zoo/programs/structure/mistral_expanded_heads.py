"""Decoder layer with grouped heads, expanded by a small helper, fused kernel."""

import torch
from torch import nn
import torch.nn.functional as F


class ModelArgs:
    dim = 40
    n_layers = 2
    n_heads = 8
    n_kv_heads = 4
    head_dim = 10
    vocab_size = 43
    max_seq_len = 32


def expand_heads(x, n_rep):
    bs, n_kv, seqlen, head_dim = x.shape
    return x[:, :, None].expand(bs, n_kv, n_rep, seqlen, head_dim).reshape(bs, n_kv * n_rep, seqlen, head_dim)


class Attention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.repeats = args.n_heads // args.n_kv_heads
        self.wq = nn.Linear(args.dim, args.n_heads * args.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * args.head_dim, args.dim, bias=False)

    def forward(self, x):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.args.n_heads, self.args.head_dim).transpose(1, 2)
        xk = self.wk(x).view(bsz, seqlen, self.args.n_kv_heads, self.args.head_dim).transpose(1, 2)
        xv = self.wv(x).view(bsz, seqlen, self.args.n_kv_heads, self.args.head_dim).transpose(1, 2)
        xk = expand_heads(xk, self.repeats)
        xv = expand_heads(xv, self.repeats)
        out = F.scaled_dot_product_attention(xq, xk, xv, is_causal=True)
        return self.wo(out.transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.tok = nn.Embedding(args.vocab_size, args.dim)
        self.pos = nn.Embedding(args.max_seq_len, args.dim)
        self.norms = nn.ModuleList(nn.RMSNorm(args.dim) for _ in range(args.n_layers))
        self.attns = nn.ModuleList(Attention(args) for _ in range(args.n_layers))
        self.out = nn.Linear(args.dim, args.vocab_size, bias=False)

    def forward(self, tokens):
        h = self.tok(tokens) + self.pos.weight[: tokens.shape[1]]
        for norm, attn in zip(self.norms, self.attns):
            h = h + attn(norm(h))
        return self.out(h)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(130)
        return Model(ModelArgs()).eval()


def inputs():
    return {"tokens": torch.randint(0, 43, (3, 13), generator=torch.Generator().manual_seed(131))}
