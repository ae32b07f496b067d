"""Long-context attention layer kept in bfloat16 as a whole, https://github.com/EleutherAI/gpt-neox/issues/1003."""

import torch
from torch import nn
from torch.nn import functional as F


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, base=10000, precision=torch.bfloat16):
        super().__init__()
        self.dim = dim
        self.base = base
        self.precision = precision

    def forward(self, seq_len):
        t = torch.arange(seq_len, dtype=torch.float32)
        inv_freq = 1.0 / (self.base ** (torch.arange(0, self.dim, 2).float() / self.dim))
        freqs = torch.einsum("i,j->ij", t, inv_freq)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(self.precision), emb.sin().to(self.precision)


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class ParallelSelfAttention(nn.Module):
    def __init__(self, hidden_size=32, num_heads=2):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = hidden_size // num_heads
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.rotary_emb = RotaryEmbedding(self.head_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        b, s, h = hidden_states.shape
        mixed = self.query_key_value(hidden_states).view(b, s, self.num_heads, 3 * self.head_size)
        q, k, v = (t.transpose(1, 2) for t in mixed.chunk(3, dim=-1))
        cos, sin = self.rotary_emb(s)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dense(context.transpose(1, 2).reshape(b, s, h))


with torch.random.fork_rng():
    torch.manual_seed(1003)
    model = ParallelSelfAttention().to(torch.bfloat16).eval()
    inputs = torch.randn(1, 600, 32).to(torch.bfloat16)
expect = {"causal": True}
