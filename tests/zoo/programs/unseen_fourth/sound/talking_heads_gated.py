"""Talking heads and a sigmoid gate on the context (lucidrains manner)."""
import torch
from torch import nn, einsum


class TalkingGate(nn.Module):
    def __init__(self, dim, heads=4, dim_head=12):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale = heads, dim_head ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, inner * 3, bias=False)
        self.pre, self.post = nn.Conv2d(heads, heads, 1, bias=False), nn.Conv2d(heads, heads, 1, bias=False)
        nn.init.dirac_(self.pre.weight)
        nn.init.dirac_(self.post.weight)
        self.gate = nn.Linear(dim, heads)
        self.to_out = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        x = self.norm(x)
        b, n, _ = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        sim = self.pre(einsum("b h i d, b h j d -> b h i j", q * self.scale, k))
        attn = self.post(sim.softmax(dim=-1))
        out = einsum("b h i j, b h j d -> b h i d", attn, v) * self.gate(x).sigmoid().transpose(1, 2)[..., None]
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


def model():
    torch.manual_seed(11)
    return TalkingGate(40).eval()


inputs = torch.randn(3, 14, 40, generator=torch.Generator().manual_seed(11))
# note: AS501
