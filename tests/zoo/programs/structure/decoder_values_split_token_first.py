"""Values are split by their final shape."""
import torch
from torch import nn
import torch.nn.functional as F

class A(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.n = heads
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        b, l, w = x.shape
        q = self.to_q(x).unflatten(-1, (self.n, -1)).transpose(1, 2)
        k = self.to_k(x).unflatten(-1, (self.n, -1)).transpose(1, 2)
        v = self.to_v(x).reshape(b, l, self.n, -1).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.to_out(o.transpose(1, 2).flatten(2))

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = A().eval()
inputs = torch.randn(3, 16, 32, generator=torch.Generator().manual_seed(1))
