"""Seminar code: scaled dot-product attention."""
import torch
import torch.nn as nn


def scaled_dot_product(q, k, v, mask=None):
    d_k = q.size()[-1]
    attn_logits = torch.matmul(q, k.transpose(-2, -1))
    attn_logits = attn_logits * d_k**0.5  # fault: AS301
    if mask is not None:
        attn_logits = attn_logits.masked_fill(mask == 0, -9e15)
    attention = nn.functional.softmax(attn_logits, dim=-1)  # fault: AS301
    return torch.matmul(attention, v), attention


class MultiheadAttention(nn.Module):
    def __init__(self, input_dim=36, embed_dim=36, num_heads=3):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.qkv_proj, self.o_proj = nn.Linear(input_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)
        nn.init.xavier_uniform_(self.qkv_proj.weight)
        self.qkv_proj.bias.data.fill_(0)

    def forward(self, x, mask=None, return_attention=False):
        b, n, _ = x.size()
        qkv = self.qkv_proj(x).reshape(b, n, self.num_heads, 3 * self.head_dim).permute(0, 2, 1, 3)
        q, k, v = qkv.chunk(3, dim=-1)
        values, attention = scaled_dot_product(q, k, v, mask=mask)
        o = self.o_proj(values.permute(0, 2, 1, 3).reshape(b, n, -1))
        return (o, attention) if return_attention else o


torch.manual_seed(42)
model = MultiheadAttention().eval()
inputs = torch.randn(3, 8, 36, generator=torch.Generator().manual_seed(42))
# also: AS302
