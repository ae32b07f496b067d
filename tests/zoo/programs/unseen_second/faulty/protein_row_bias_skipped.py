"""Gated row attention over an alignment with a pair bias (small structure trunk)."""

import torch
import torch.nn as nn


class MSARowAttentionWithPairBias(nn.Module):
    def __init__(self, c_m=24, c_z=10, c_hidden=8, no_heads=3, inf=1e9):
        super().__init__()
        self.no_heads, self.c_hidden, self.inf = no_heads, c_hidden, inf
        self.layer_norm_m = nn.LayerNorm(c_m)
        self.layer_norm_z = nn.LayerNorm(c_z)
        self.linear_z = nn.Linear(c_z, no_heads, bias=False)
        self.linear_q = nn.Linear(c_m, c_hidden * no_heads, bias=False)
        self.linear_k = nn.Linear(c_m, c_hidden * no_heads, bias=False)
        self.linear_v = nn.Linear(c_m, c_hidden * no_heads, bias=False)
        self.linear_g = nn.Linear(c_m, c_hidden * no_heads)
        self.linear_o = nn.Linear(c_hidden * no_heads, c_m)

    def _split(self, t):
        return t.view(t.shape[:-1] + (self.no_heads, -1)).transpose(-2, -3)

    def forward(self, m, z, msa_mask):
        m_ln = self.layer_norm_m(m)
        mask_bias = (self.inf * (msa_mask - 1))[..., :, None, None, :]
        pair_bias = self.linear_z(self.layer_norm_z(z)).permute(0, 3, 1, 2).unsqueeze(1)  # fault: AS903|AS501
        q = self._split(self.linear_q(m_ln)) * self.c_hidden**-0.5
        k = self._split(self.linear_k(m_ln))
        v = self._split(self.linear_v(m_ln))
        a = torch.matmul(q, k.transpose(-1, -2))
        a = a + mask_bias
        a = torch.softmax(a, -1)  # fault: AS903|AS501
        o = torch.matmul(a, v).transpose(-2, -3)
        g = torch.sigmoid(self.linear_g(m_ln)).view(o.shape)
        o = (o * g).flatten(-2)
        return m + self.linear_o(o)


class Trunk(nn.Module):
    def __init__(self, letters=23, bins=16):
        super().__init__()
        self.msa = nn.Embedding(letters, 24)
        self.relpos = nn.Embedding(2 * bins + 1, 10)
        self.bins = bins
        self.row = MSARowAttentionWithPairBias()
        self.head = nn.Linear(24, letters)

    def forward(self, msa, msa_mask):
        n = msa.size(-1)
        d = torch.arange(n)[:, None] - torch.arange(n)[None, :]
        z = self.relpos(d.clamp(-self.bins, self.bins) + self.bins).expand(msa.size(0), n, n, -1)
        return self.head(self.row(self.msa(msa), z, msa_mask))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(21)
        return Trunk().eval()


def inputs():
    g = torch.Generator().manual_seed(6)
    msa = torch.randint(0, 23, (2, 4, 14), generator=g)
    mask = torch.ones(2, 4, 14)
    mask[1, :, 9:] = 0
    return {"msa": msa, "msa_mask": mask}


expect = {"padding": "msa_mask keep", "causal": False}
# also: AS501 AS903 AS902
