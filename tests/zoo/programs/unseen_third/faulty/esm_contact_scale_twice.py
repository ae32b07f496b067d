"""Protein encoder with packed projection and F.scaled_dot_product_attention."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, c, no_heads):
        super().__init__()
        self.c, self.no_heads, self.c_hidden = c, no_heads, c // no_heads
        self.linear_q = nn.Linear(c, c, bias=False)
        self.linear_kv = nn.Linear(c, 2 * c, bias=False)
        self.linear_g = nn.Linear(c, c)
        self.linear_o = nn.Linear(c, c)

    def _prep_qkv(self, m):
        q = self.linear_q(m)
        q = q / self.c_hidden**0.5  # fault: AS301
        k, v = self.linear_kv(m).chunk(2, dim=-1)
        return tuple(t.view(t.shape[:-1] + (self.no_heads, -1)).transpose(-2, -3) for t in (q, k, v))

    def forward(self, m):
        q, k, v = self._prep_qkv(m)
        o = F.scaled_dot_product_attention(q, k, v)  # fault: AS301
        g = torch.sigmoid(self.linear_g(m))
        o = o.transpose(-2, -3).flatten(-2)
        return self.linear_o(o * g)


class Stack(nn.Module):
    def __init__(self, n_aa=21, c=48, heads=6, blocks=2):
        super().__init__()
        self.aa = nn.Embedding(n_aa, c)
        self.rel = nn.Embedding(64, c)
        self.blocks = nn.ModuleList([SelfAttention(c, heads) for _ in range(blocks)])
        self.norms = nn.ModuleList([nn.LayerNorm(c) for _ in range(blocks)])

    def forward(self, aatype):
        m = self.aa(aatype) + self.rel.weight[: aatype.shape[-1]]
        for b, n in zip(self.blocks, self.norms):
            m = m + b(n(m))
        return m


with torch.random.fork_rng():
    torch.manual_seed(19)
    model = Stack().eval()
inputs = (torch.randint(0, 21, (3, 23), generator=torch.Generator().manual_seed(1)),)
expect = {"scale": 0.35355339}
