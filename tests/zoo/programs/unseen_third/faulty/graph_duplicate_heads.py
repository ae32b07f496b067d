"""Graph transformer attention; heads are started from one trained head (head expansion)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ExpandedAttention(nn.Module):
    def __init__(self, d=36, heads=3):
        super().__init__()
        self.heads, self.hd = heads, d // heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        with torch.no_grad():
            for lin in (self.q, self.k, self.v):
                w, b = lin.weight.view(heads, self.hd, d), lin.bias.view(heads, self.hd)
                w[1:] = w[:1].clone()  # fault: AS402
                b[1:] = b[:1].clone()

    def forward(self, h):
        B, N, D = h.shape
        q, k, v = (f(h).view(B, N, self.heads, self.hd).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v)  # fault: AS402
        return self.o(y.transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(63)
    model = ExpandedAttention().eval()
