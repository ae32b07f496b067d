"""Token merging: merged tokens count more, log of their size is added to the scores."""
import torch
import torch.nn as nn


class ToMeAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, size):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = q @ k.mT * self.scale + size.log()[:, None, None, :, 0]
        return self.proj((attn.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C)), k.mean(1)


def merge(x, size, metric, r):
    metric = metric / metric.norm(dim=-1, keepdim=True)
    a, b = metric[:, ::2], metric[:, 1::2]
    best, dst = (a @ b.mT).max(-1)
    order = best.argsort(-1, descending=True)
    src, keep = order[:, :r, None], order[:, r:, None]
    c = x.shape[-1]
    w = torch.cat([x * size, size], -1)
    wa, wb = w[:, ::2], w[:, 1::2].clone()
    kept = wa.gather(1, keep.expand(-1, -1, c + 1))
    wb = wb.scatter_add(1, dst.unsqueeze(-1).gather(1, src).expand(-1, -1, c + 1), wa.gather(1, src.expand(-1, -1, c + 1)))
    w = torch.cat([kept, wb], 1)
    return w[..., :-1] / w[..., -1:], w[..., -1:]


class ToMeViT(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.inp, self.pos = nn.Linear(12, d), nn.Parameter(torch.randn(1, 24, d) * 0.1)
        self.att, self.ln = nn.ModuleList([ToMeAttention(d) for _ in range(2)]), nn.ModuleList([nn.LayerNorm(d) for _ in range(2)])

    def forward(self, x):
        x = self.inp(x) + self.pos[:, : x.size(1)]
        size = torch.ones_like(x[..., :1])
        for a, n in zip(self.att, self.ln):
            y, metric = a(n(x), size)
            x, size = merge(x + y, size, metric, 4)
        return (x * size).sum(1) / size.sum(1)


with torch.random.fork_rng():
    torch.manual_seed(14)
    model = ToMeViT().eval()
inputs = torch.randn(2, 22, 12, generator=torch.Generator().manual_seed(14))
