"""x-transformers style memory key/values in front of the sequence."""
import torch
from torch import nn, einsum


class Attention(nn.Module):
    def __init__(self, dim=32, heads=4, dim_head=10, num_mem_kv=3, causal=True):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale, self.causal = heads, dim_head**-0.5, causal
        self.mem_k = nn.Parameter(torch.randn(heads, num_mem_kv, dim_head))
        self.mem_v = nn.Parameter(torch.randn(heads, num_mem_kv, dim_head))
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, inner, bias=False) for _ in range(3))
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        b = x.shape[0]
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v))
        mk, mv = (m.unsqueeze(0).expand(b, -1, -1, -1) for m in (self.mem_k, self.mem_v))
        k, v = torch.cat((mk, k), dim=-2), torch.cat((mv, v), dim=-2)
        dots = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        if self.causal:
            i, j = dots.shape[-2:]
            dots = dots.masked_fill(torch.ones((i, j), dtype=torch.bool).triu(j - i + 1), -torch.finfo(dots.dtype).max)
        out = einsum("b h i j, b h j d -> b h i d", dots.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = Attention().eval()
inputs = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
expect = {"causal": True}
