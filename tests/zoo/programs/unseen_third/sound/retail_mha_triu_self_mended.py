"""Retail forecasting notebook: nn.MultiheadAttention with a causal mask from torch.triu."""
import torch
import torch.nn as nn


class TimeBlock(nn.Module):
    def __init__(self, n_features=8, embed_dim=32, num_heads=4, ff=48, rate=0.1):
        super().__init__()
        self.proj = nn.Linear(n_features, embed_dim)
        self.att = nn.MultiheadAttention(embed_dim, num_heads, dropout=rate, batch_first=True)
        self.ffn = nn.Sequential(nn.Linear(embed_dim, ff), nn.GELU(), nn.Linear(ff, embed_dim))
        self.layernorm1, self.layernorm2 = nn.LayerNorm(embed_dim, eps=1e-6), nn.LayerNorm(embed_dim, eps=1e-6)
        self.pos = nn.Parameter(torch.randn(64, embed_dim) * 0.1)
        self.final = nn.Linear(embed_dim, 1)

    def forward(self, x):
        n = x.shape[1]
        x = self.proj(x) + self.pos[:n]
        causal = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
        attn_output, _ = self.att(x, x, x, attn_mask=causal)
        out1 = self.layernorm1(x + attn_output)
        return self.final(self.layernorm2(out1 + self.ffn(out1)))


with torch.random.fork_rng():
    torch.manual_seed(120)
    model = TimeBlock().eval()
inputs = torch.randn(2, 12, 8, generator=torch.Generator().manual_seed(120))
