"""Decoder layers with QK-norm, grouped keys and a sigmoid gate on each head's output."""

import torch
import torch.nn.functional as F
from torch import nn


class GatedAttention(nn.Module):
    def __init__(self, hidden, n_heads, n_kv_heads, head_dim):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.wq = nn.Linear(hidden, n_heads * head_dim * 2, bias=False)
        self.wk = nn.Linear(hidden, n_kv_heads * head_dim, bias=False)
        self.wv = nn.Linear(hidden, n_kv_heads * head_dim, bias=False)
        self.wo = nn.Linear(n_heads * head_dim, hidden, bias=False)
        self.q_norm = nn.RMSNorm(head_dim, eps=1e-6)
        self.k_norm = nn.RMSNorm(head_dim, eps=1e-6)

    def rope(self, x):
        d = x.shape[-1]
        pos = torch.arange(x.shape[2], dtype=torch.float32, device=x.device)
        inv = 1.0 / (10000 ** (torch.arange(0, d, 2, device=x.device).float() / d))
        f = pos[:, None] * inv[None]
        cos, sin = torch.cat([f, f], -1).cos(), torch.cat([f, f], -1).sin()
        rot = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], -1)
        return x * cos + rot * sin

    def forward(self, x):
        bsz, n, _ = x.shape
        q, gate = self.wq(x).view(bsz, n, self.n_heads, 2 * self.head_dim).chunk(2, dim=-1)
        q = self.rope(self.q_norm(q).transpose(1, 2))
        k = self.rope(self.k_norm(self.wk(x).view(bsz, n, self.n_kv_heads, self.head_dim)).transpose(1, 2))
        v = self.wv(x).view(bsz, n, self.n_kv_heads, self.head_dim).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        o = o.transpose(1, 2) * torch.sigmoid(gate)
        return self.wo(o.reshape(bsz, n, -1))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(88, 56)
        self.layers = nn.ModuleList(
            nn.ModuleList([nn.RMSNorm(56), GatedAttention(56, 6, 3, 12), nn.RMSNorm(56), nn.Linear(56, 56)])
            for _ in range(2)
        )
        self.head = nn.Linear(56, 88, bias=False)

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for ln1, attn, ln2, ffn in self.layers:
            x = x + attn(ln1(x))
            x = x + F.silu(ffn(ln2(x)))
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(3)
    model = Decoder().eval()

inputs = {"input_ids": torch.randint(0, 88, (2, 10), generator=torch.Generator().manual_seed(7))}
expect = {"causal": True}
