"""Drop-in multi-head attention with query, key and value arguments, https://github.com/kyegomez/FlashMHA/issues/3."""

import torch
import torch.nn.functional as F
from torch import nn


class FlashMHA(nn.Module):
    def __init__(self, embed_dim, num_heads, bias=True, causal=False):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.causal = causal
        self.Wqkv = nn.Linear(embed_dim, 3 * embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def forward(self, query, key, value):
        weights = self.Wqkv.weight.chunk(3)
        biases = self.Wqkv.bias.chunk(3)
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)
            for x, w, b in zip((query, key, value), weights, biases)
        )
        attn_output = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out_proj(attn_output.transpose(1, 2).flatten(2))


class CaptionConditioning(nn.Module):
    def __init__(self, dim=36, heads=4):
        super().__init__()
        self.norm_q = nn.LayerNorm(dim)
        self.norm_kv = nn.LayerNorm(dim)
        self.cross = FlashMHA(dim, heads)

    def forward(self, image_tokens, text_tokens):
        text = self.norm_kv(text_tokens)
        return image_tokens + self.cross(self.norm_q(image_tokens), text, text)


# note: AS501
with torch.random.fork_rng():
    torch.manual_seed(3)
    model = CaptionConditioning().eval()
    inputs = {"image_tokens": torch.randn(2, 10, 36), "text_tokens": torch.randn(2, 7, 36)}
