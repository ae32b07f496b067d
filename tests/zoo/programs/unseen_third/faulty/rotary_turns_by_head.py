"""GPT-J style rotary, helper written for (batch, seq, heads, dim)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def fixed_pos_embedding(x, seq_dim=1):
    dim, seq_len = x.shape[-1], x.shape[seq_dim]
    inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2) / dim))
    sinusoid = torch.einsum("i,j->ij", torch.arange(seq_len), inv_freq)
    return torch.sin(sinusoid), torch.cos(sinusoid)


def rotate_every_two(x):
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)


def apply_rotary(x, sincos):
    sin, cos = (t.repeat_interleave(2, -1)[None, :, None, :] for t in sincos)
    return x * cos + rotate_every_two(x) * sin


class GPTJAttention(nn.Module):
    def __init__(self, d=40, h=5):
        super().__init__()
        self.h = h
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, self.h, d // self.h).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        sincos = fixed_pos_embedding(k)  # fault: AS503
        q, k = apply_rotary(q, sincos), apply_rotary(k, sincos)  # fault: AS503
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).reshape(b, t, d))


torch.manual_seed(0)
model = GPTJAttention().eval()
inputs = torch.randn(2, 9, 40, generator=torch.Generator().manual_seed(0))
# also: AS501
