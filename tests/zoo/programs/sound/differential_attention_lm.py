"""Differential Transformer: the difference of two softmax maps, head norm, lambda re-parametrised."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class MultiheadDiffAttn(nn.Module):
    def __init__(self, embed_dim, depth, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads // 2
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (
            nn.Parameter(torch.randn(self.head_dim) * 0.1) for _ in range(4)
        )
        self.subln = nn.RMSNorm(2 * self.head_dim, eps=1e-5)

    def forward(self, x):
        bsz, tgt_len, embed_dim = x.size()
        q = self.q_proj(x).view(bsz, tgt_len, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(bsz, tgt_len, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(bsz, tgt_len, self.num_heads, 2 * self.head_dim).transpose(1, 2)
        attn_weights = torch.matmul(q * self.head_dim**-0.5, k.transpose(-1, -2))
        attn_mask = torch.triu(torch.full((tgt_len, tgt_len), float("-inf"), device=x.device), 1)
        attn_weights = F.softmax(attn_weights + attn_mask, dim=-1, dtype=torch.float32)
        lambda_1 = torch.exp(torch.sum(self.lambda_q1 * self.lambda_k1))
        lambda_2 = torch.exp(torch.sum(self.lambda_q2 * self.lambda_k2))
        lambda_full = lambda_1 - lambda_2 + self.lambda_init
        attn_weights = attn_weights.view(bsz, self.num_heads, 2, tgt_len, tgt_len)
        attn_weights = attn_weights[:, :, 0] - lambda_full * attn_weights[:, :, 1]
        attn = self.subln(torch.matmul(attn_weights, v)) * (1 - self.lambda_init)
        return self.out_proj(attn.transpose(1, 2).reshape(bsz, tgt_len, embed_dim))


class DiffLM(nn.Module):
    def __init__(self, vocab=61, dim=48, heads=3, depth=2):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab, dim), nn.Embedding(40, dim)
        self.attn = nn.ModuleList(MultiheadDiffAttn(dim, i, heads) for i in range(depth))
        self.norm = nn.ModuleList(nn.RMSNorm(dim) for _ in range(depth + 1))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens) + self.pos.weight[: tokens.shape[1]]
        for attn, norm in zip(self.attn, self.norm):
            x = x + attn(norm(x))
        return self.head(self.norm[-1](x))


with torch.random.fork_rng():
    torch.manual_seed(98)
    model = DiffLM().eval()

inputs = {"tokens": torch.randint(0, 61, (2, 11), generator=torch.Generator().manual_seed(99))}
expect = {"causal": True}
