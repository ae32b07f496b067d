"""Topic tagger with a scalar gate on each head, gates spread at the start so heads specialise."""
import torch
from torch import nn
import torch.nn.functional as F


class GatedHeads(nn.Module):
    def __init__(self, d=50, h=5):
        super().__init__()
        self.h = h
        self.gate = nn.Parameter(torch.linspace(0, 1, h).view(1, h, 1, 1))  # fault: AS401
        self.to_qkv = nn.Linear(d, 3 * d, bias=False)
        self.to_out = nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(b, n, self.h, -1).transpose(1, 2) for t in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v)  # fault: AS401
        out = out * self.gate  # fault: AS401
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


with torch.random.fork_rng():
    torch.manual_seed(401)
    model = GatedHeads().eval()
