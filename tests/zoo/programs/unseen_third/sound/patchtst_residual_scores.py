"""TST encoder with residual attention: the scores of the layer before are added (RealFormer)."""
import torch
import torch.nn as nn


class ResAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.scale = nn.Parameter(torch.tensor((d // h) ** -0.5), requires_grad=False)
        self.W_Q, self.W_K, self.W_V, self.to_out = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, prev=None):
        bs, n, d = x.shape
        q = self.W_Q(x).view(bs, n, self.h, -1).transpose(1, 2)
        k = self.W_K(x).view(bs, n, self.h, -1).permute(0, 2, 3, 1)
        v = self.W_V(x).view(bs, n, self.h, -1).transpose(1, 2)
        attn_scores = torch.matmul(q, k) * self.scale
        if prev is not None:
            attn_scores = attn_scores + prev
        out = torch.matmul(attn_scores.softmax(-1), v).transpose(1, 2).contiguous().view(bs, n, d)
        return self.to_out(out), attn_scores


class TSTEncoder(nn.Module):
    def __init__(self, patch=6, d=32, h=4, layers=3):
        super().__init__()
        self.W_P, self.W_pos = nn.Linear(patch, d), nn.Parameter(torch.randn(20, d) * 0.1)
        self.layers = nn.ModuleList([ResAttention(d, h) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(layers)])

    def forward(self, patches):
        z, scores = self.W_P(patches) + self.W_pos[: patches.size(1)], None
        for l, n in zip(self.layers, self.norms):
            y, scores = l(z, scores)
            z = n(z + y)
        return z


with torch.random.fork_rng():
    torch.manual_seed(17)
    model = TSTEncoder().eval()
inputs = torch.randn(2, 15, 6, generator=torch.Generator().manual_seed(17))
