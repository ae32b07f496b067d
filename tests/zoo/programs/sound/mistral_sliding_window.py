"""Mistral-like layers: grouped heads, sliding window of four, rotary embedding."""

import torch
from torch import nn


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    return torch.polar(torch.ones(end, dim // 2), torch.outer(torch.arange(end).float(), freqs))


def apply_rotary_emb(xq, xk, freqs_cis):
    q = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    k = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs_cis = freqs_cis[None, :, None, :]
    return (
        torch.view_as_real(q * freqs_cis).flatten(3).type_as(xq),
        torch.view_as_real(k * freqs_cis).flatten(3).type_as(xk),
    )


class Attention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads, window):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.window = n_heads, n_kv_heads, window
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x, freqs_cis):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xq, xk = apply_rotary_emb(xq, xk, freqs_cis)
        rep = self.n_heads // self.n_kv_heads
        xk = torch.repeat_interleave(xk, rep, dim=2).transpose(1, 2)
        xv = torch.repeat_interleave(xv, rep, dim=2).transpose(1, 2)
        mask = torch.full((seqlen, seqlen), 1.0, device=x.device)
        mask = torch.tril(mask, diagonal=0)
        mask = torch.log(torch.triu(mask, diagonal=-self.window + 1))
        scores = torch.matmul(xq.transpose(1, 2), xk.transpose(2, 3)) * self.head_dim**-0.5
        scores = torch.softmax((scores + mask).float(), dim=-1).type_as(xq)
        return self.wo(torch.matmul(scores, xv).transpose(1, 2).reshape(bsz, seqlen, -1))


class Transformer(nn.Module):
    def __init__(self, vocab=90, dim=48, n_layers=2, window=4):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Attention(dim, 6, 2, window) for _ in range(n_layers))
        self.norms = nn.ModuleList(nn.RMSNorm(dim) for _ in range(n_layers))
        self.output = nn.Linear(dim, vocab, bias=False)
        self.freqs_cis = precompute_freqs_cis(dim // 6, 64)

    def forward(self, input_ids):
        h = self.tok_embeddings(input_ids)
        for norm, layer in zip(self.norms, self.layers):
            h = h + layer(norm(h), self.freqs_cis[: h.shape[1]])
        return self.output(h)


with torch.random.fork_rng():
    torch.manual_seed(8)
    model = Transformer().eval()

inputs = {"input_ids": torch.randint(0, 90, (2, 13), generator=torch.Generator().manual_seed(3))}
expect = {"causal": True, "window": 4}
