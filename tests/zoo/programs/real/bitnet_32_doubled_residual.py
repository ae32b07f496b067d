"""Causal transformer with attention and feed-forward lists, https://github.com/kyegomez/BitNet/issues/32."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(-2))


class Transformer(nn.Module):
    def __init__(self, dim: int, heads: int, depth: int):
        super().__init__()
        self.layers = nn.ModuleList([Attention(dim, heads) for _ in range(depth)])
        self.ffn_layers = nn.ModuleList(
            [
                nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
                for _ in range(depth)
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        for attn, ffn in zip(self.layers, self.ffn_layers):
            x = attn(x)
            x = x + x  # fault: AS904
            x = ffn(x) + x
        return x


class LanguageModel(nn.Module):
    def __init__(self, num_tokens: int = 70, dim: int = 40, heads: int = 5, depth: int = 3):
        super().__init__()
        self.emb = nn.Embedding(num_tokens, dim)
        self.pos = nn.Embedding(32, dim)
        self.transformer = Transformer(dim, heads, depth)
        self.to_logits = nn.Sequential(nn.RMSNorm(dim), nn.Linear(dim, num_tokens))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.emb(tokens) + self.pos(torch.arange(tokens.shape[1]))
        return self.to_logits(self.transformer(x))


with torch.random.fork_rng():
    torch.manual_seed(32)
    model = LanguageModel().eval()
    inputs = torch.randint(0, 70, (2, 11))
expect = {"causal": True}
