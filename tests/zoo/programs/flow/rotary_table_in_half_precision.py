"""Long-context attention layer whose rotary tables follow the dtype of the model."""

import torch
from torch import nn
import torch.nn.functional as F


class Rope(nn.Module):
    def __init__(self, dim, max_len, dtype, base=10000.0):
        super().__init__()
        inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        t = torch.arange(max_len, dtype=dtype)  # fault: AS505
        freqs = torch.outer(t, inv_freq.to(dtype))  # fault: AS505
        self.register_buffer("cos", torch.cat((freqs, freqs), -1).cos().to(dtype))
        self.register_buffer("sin", torch.cat((freqs, freqs), -1).sin().to(dtype))

    def forward(self, x):
        n = x.shape[-2]
        a, b = x.chunk(2, dim=-1)
        return x * self.cos[:n] + torch.cat((-b, a), dim=-1) * self.sin[:n]


class LongAttention(nn.Module):
    def __init__(self, width=48, heads=3, max_len=1024, dtype=torch.bfloat16):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False, dtype=dtype)
        self.out = nn.Linear(width, width, bias=False, dtype=dtype)
        self.rope = Rope(width // heads, max_len, dtype)

    def forward(self, x):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(self.rope(q), self.rope(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(64)
    model = LongAttention().eval()

inputs = torch.randn(1, 700, 48, generator=torch.Generator().manual_seed(64)).bfloat16()
