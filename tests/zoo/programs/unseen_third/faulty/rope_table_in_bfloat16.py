"""Long-context decoder layer, parameters in bf16."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RoPE(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, x):
        t = torch.arange(x.shape[2], device=x.device).to(self.inv_freq.dtype)  # fault: AS505
        freqs = torch.einsum("i,j->ij", t, self.inv_freq)  # fault: AS505
        emb = torch.cat((freqs, freqs), dim=-1)
        a, b = x.chunk(2, -1)
        return x * emb.cos().to(x.dtype) + torch.cat((-b, a), -1) * emb.sin().to(x.dtype)  # fault: AS505


class Layer(nn.Module):
    def __init__(self, d=32, h=2):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.rotary = RoPE(d // h)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = Layer().to(torch.bfloat16).eval()
inputs = torch.randn(1, 700, 32, generator=torch.Generator().manual_seed(0)).bfloat16()
# also: AS503
