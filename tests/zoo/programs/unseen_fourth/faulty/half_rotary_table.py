"""Long context rotary attention with tables kept small in memory."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LongAttention(nn.Module):
    def __init__(self, dim=32, heads=2, max_len=1024, base=10000):
        super().__init__()
        self.heads, hd = heads, dim // heads
        inv = 1.0 / base ** (torch.arange(0, hd, 2).float() / hd)
        t = torch.arange(max_len)
        ang = torch.outer(t.bfloat16(), inv.bfloat16())  # fault: AS505|AS304
        self.register_buffer("cos", torch.cat((ang, ang), -1).cos().float(), persistent=False)
        self.register_buffer("sin", torch.cat((ang, ang), -1).sin().float(), persistent=False)
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def rot(self, x):
        n = x.size(-2)
        x1, x2 = x.chunk(2, -1)
        return x * self.cos[:n] + torch.cat((-x2, x1), -1) * self.sin[:n]

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.wqkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rot(q), self.rot(k), v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, n, d))


torch.manual_seed(12)
model = LongAttention().eval()
inputs = torch.randn(1, 600, 32, generator=torch.Generator().manual_seed(12))
# also: AS503
