"""A bfloat16 Llama with float32 norms and softmax."""

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        h = x.to(torch.float32)
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * h.to(x.dtype)


class LlamaAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.hd = heads, kv_heads, dim // heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def rotary(self, x):
        n, d = x.shape[2:]
        inv = 1.0 / (10000.0 ** (torch.arange(0, d, 2, dtype=torch.float32) / d))
        emb = (torch.arange(n, dtype=torch.float32)[:, None] * inv).repeat(1, 2)
        x1, x2 = x[..., : d // 2], x[..., d // 2 :]
        return x * emb.cos().to(x.dtype) + torch.cat((-x2, x1), -1) * emb.sin().to(x.dtype)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.rotary(self.q_proj(x).view(b, n, self.heads, self.hd).transpose(1, 2))
        k = self.rotary(self.k_proj(x).view(b, n, self.kv_heads, self.hd).transpose(1, 2))
        v = self.v_proj(x).view(b, n, self.kv_heads, self.hd).transpose(1, 2)
        rep = self.heads // self.kv_heads
        k = k[:, :, None].expand(-1, -1, rep, -1, -1).reshape(b, self.heads, n, self.hd)
        v = v[:, :, None].expand(-1, -1, rep, -1, -1).reshape(b, self.heads, n, self.hd)
        w = torch.matmul(q, k.transpose(2, 3)) * self.hd**-0.5
        causal = torch.full((n, n), torch.finfo(w.dtype).min, dtype=w.dtype).triu(1)
        w = F.softmax(w + causal, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj(torch.matmul(w, v).transpose(1, 2).reshape(b, n, -1))


class LlamaBlock(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.ln1, self.ln2 = RMSNorm(dim), RMSNorm(dim)
        self.attn = LlamaAttention(dim, heads, kv_heads)
        self.gate, self.up = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        y = self.ln2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, vocab=99, dim=64, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.Sequential(*(LlamaBlock(dim, 8, 2) for _ in range(depth)))
        self.norm = RMSNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, input_ids):
        return self.lm_head(self.norm(self.layers(self.embed(input_ids))))


with torch.random.fork_rng():
    torch.manual_seed(16)
    model = Llama().to(torch.bfloat16).eval()

inputs = {"input_ids": torch.randint(0, 99, (3, 14), generator=torch.Generator().manual_seed(6))}
expect = {"causal": True}
