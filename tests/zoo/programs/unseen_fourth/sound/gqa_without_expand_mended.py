"""Small Qwen-like attention with fewer key/value heads, fused call."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class QAttn(nn.Module):
    def __init__(self, hidden=48, heads=6, kv=2, **kwargs):
        super().__init__()
        self.heads, self.kv, self.hd = heads, kv, hidden // heads
        self.q_proj, self.o_proj = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden, bias=False)
        self.k_proj, self.v_proj = nn.Linear(hidden, kv * self.hd), nn.Linear(hidden, kv * self.hd)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q_proj(x).view(b, t, self.heads, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(b, t, self.kv, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.kv, self.hd).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(o.transpose(1, 2).flatten(2))


def model():
    torch.manual_seed(21)
    return QAttn().eval()


inputs = torch.randn(2, 9, 48, generator=torch.Generator().manual_seed(21))
# note: AS501
