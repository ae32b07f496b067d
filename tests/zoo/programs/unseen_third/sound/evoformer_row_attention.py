"""Evoformer: MSA row attention with pair bias and gating, then column attention; arrays are (batch, seqs, residues, c)."""
import torch
import torch.nn as nn


class GatedAttention(nn.Module):
    def __init__(self, c, heads, gating=True):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v = (nn.Linear(c, c, bias=False) for _ in range(3))
        self.g, self.o = nn.Linear(c, c), nn.Linear(c, c)
        nn.init.zeros_(self.g.weight)
        nn.init.ones_(self.g.bias)

    def forward(self, x, biases=()):
        shape = x.shape[:-1] + (self.h, -1)
        q, k, v = (f(x).view(shape).transpose(-2, -3) for f in (self.q, self.k, self.v))
        a = torch.matmul(q / q.size(-1) ** 0.5, k.transpose(-1, -2))
        for b in biases:
            a = a + b
        o = torch.matmul(torch.softmax(a, -1), v).transpose(-2, -3)
        o = o * torch.sigmoid(self.g(x)).view(shape)
        return self.o(o.flatten(-2))


class Evoformer(nn.Module):
    def __init__(self, c_m=32, c_z=12, heads=4, inf=1e9):
        super().__init__()
        self.inf = inf
        self.ln_r, self.ln_c, self.ln_z = nn.LayerNorm(c_m), nn.LayerNorm(c_m), nn.LayerNorm(c_z)
        self.pair = nn.Linear(c_z, heads, bias=False)
        self.row, self.col = GatedAttention(c_m, heads), GatedAttention(c_m, heads)

    def forward(self, m, z, msa_mask):
        mask_bias = (self.inf * (msa_mask - 1))[..., :, None, None, :]
        pair_bias = self.pair(self.ln_z(z)).permute(0, 3, 1, 2).unsqueeze(1)
        m = m + self.row(self.ln_r(m), [mask_bias, pair_bias])
        mt = m.transpose(-2, -3)
        cb = (self.inf * (msa_mask.transpose(-1, -2) - 1))[..., :, None, None, :]
        return (mt + self.col(self.ln_c(mt), [cb])).transpose(-2, -3)


with torch.random.fork_rng():
    torch.manual_seed(34)
    model = Evoformer().eval()
_g = torch.Generator().manual_seed(34)
_mask = torch.ones(2, 5, 9)
_mask[0, :, 7:] = 0
inputs = (torch.randn(2, 5, 9, 32, generator=_g), torch.randn(2, 9, 9, 12, generator=_g), _mask)
