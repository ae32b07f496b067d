"""Qwen-like attention; rotary tables made with repeat_interleave."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Rotary(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq)

    @torch.no_grad()
    def forward(self, seq_len):
        t = torch.arange(seq_len, device=self.inv_freq.device).float()
        freqs = torch.einsum("i,j->ij", t, self.inv_freq)
        emb = freqs.repeat_interleave(2, dim=-1)  # fault: AS503
        return emb.cos(), emb.sin()


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return torch.cat((-x2, x1), dim=-1)  # fault: AS503


class QwenAttention(nn.Module):
    def __init__(self, embed=72, heads=6):
        super().__init__()
        self.heads, self.hd = heads, embed // heads
        self.c_attn = nn.Linear(embed, embed * 3)
        self.c_proj = nn.Linear(embed, embed, bias=False)
        self.rotary_emb = Rotary(self.hd)

    def forward(self, x):
        b, n, e = x.shape
        q, k, v = [t.view(b, n, self.heads, self.hd).transpose(1, 2) for t in self.c_attn(x).split(e, 2)]
        cos, sin = self.rotary_emb(n)
        q = q * cos + rotate_half(q) * sin  # fault: AS503
        k = k * cos + rotate_half(k) * sin  # fault: AS503
        return self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, e))


torch.manual_seed(503)
model = QwenAttention().eval()
inputs = (torch.randn(2, 18, 72, generator=torch.Generator().manual_seed(503)),)
