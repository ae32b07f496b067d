"""Sparse Transformer for raw audio: even heads look at a local band, odd heads at every third sample."""

import torch
import torch.nn as nn


def sparse_patterns(n, local, stride, device):
    i = torch.arange(n, device=device)[:, None]
    j = torch.arange(n, device=device)[None, :]
    causal = j <= i
    band = causal & (i - j < local)
    strided = causal & ((i - j) % stride == 0)
    return band, strided


class FactorizedAttention(nn.Module):
    def __init__(self, width, n_heads, local=4, stride=3):
        super().__init__()
        self.n_heads, self.local, self.stride = n_heads, local, stride
        self.c_qkv = nn.Linear(width, 3 * width)
        self.c_out = nn.Linear(width, width)

    def forward(self, x):
        n, t, w = x.shape
        q, k, v = (
            z.reshape(n, t, self.n_heads, -1).permute(0, 2, 1, 3) for z in self.c_qkv(x).chunk(3, dim=2)
        )
        band, strided = sparse_patterns(t, self.local, self.stride, x.device)
        per_head = torch.stack([band if h % 2 == 0 else strided for h in range(self.n_heads)])
        logits = torch.einsum("nhqd,nhkd->nhqk", q, k) * (w // self.n_heads) ** -0.5
        logits = torch.where(per_head, logits, torch.tensor(-1e10, device=x.device))
        a = torch.einsum("nhqk,nhkd->nhqd", logits.softmax(-1), v)
        return self.c_out(a.permute(0, 2, 1, 3).reshape(n, t, w))


class AudioPrior(nn.Module):
    def __init__(self, bins=32, width=40, heads=4, depth=2, max_len=64):
        super().__init__()
        self.x_emb = nn.Embedding(bins, width)
        self.pos_emb = nn.Parameter(torch.randn(max_len, width) * 0.01)
        self.ln = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.attn = nn.ModuleList(FactorizedAttention(width, heads) for _ in range(depth))
        self.x_out = nn.Linear(width, bins, bias=False)

    def forward(self, codes):
        h = self.x_emb(codes) + self.pos_emb[: codes.shape[1]]
        for ln, attn in zip(self.ln, self.attn):
            h = h + attn(ln(h))
        return self.x_out(h)


with torch.random.fork_rng():
    torch.manual_seed(31)
    model = AudioPrior().eval()

inputs = torch.randint(0, 32, (2, 14), generator=torch.Generator().manual_seed(2))
expect = {"causal": True}
