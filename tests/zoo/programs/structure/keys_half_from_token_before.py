"""Half of the key features come from the token before."""
import torch
from torch import nn
import torch.nn.functional as F

def shift(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a, F.pad(b, (0, 0, 1, -1))), dim=-1)

class A(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.h = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        q, k, v = (t.view(B, N, self.h, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, shift(k), shift(v), is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, N, C))

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = A().eval()
inputs = torch.randn(2, 8, 32, generator=torch.Generator().manual_seed(1))
