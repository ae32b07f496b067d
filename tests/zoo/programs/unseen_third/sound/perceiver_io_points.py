"""Perceiver IO on a point set: latents read the points, think, and output queries read the latents."""
import torch
import torch.nn as nn


class XAttn(nn.Module):
    def __init__(self, dq, dkv=None, h=4, dh=8):
        super().__init__()
        self.h = h
        self.nq, self.nkv = nn.LayerNorm(dq), nn.LayerNorm(dkv) if dkv else None
        self.to_q, self.to_kv, self.to_out = nn.Linear(dq, h * dh, bias=False), nn.Linear(dkv or dq, 2 * h * dh, bias=False), nn.Linear(h * dh, dq)

    def forward(self, x, ctx=None, mask=None):
        y = self.nq(x)
        ctx = y if ctx is None else self.nkv(ctx)
        q, (k, v) = self.to_q(y), self.to_kv(ctx).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2).flatten(0, 1) for t in (q, k, v))
        sim = torch.einsum("bid,bjd->bij", q, k) * q.size(-1) ** -0.5
        if mask is not None:
            sim = sim.masked_fill(~mask.repeat_interleave(self.h, 0)[:, None], -torch.finfo(sim.dtype).max)
        out = torch.einsum("bij,bjd->bid", sim.softmax(-1), v)
        return x + self.to_out(out.unflatten(0, (-1, self.h)).transpose(1, 2).flatten(2))


class PerceiverIO(nn.Module):
    def __init__(self, d_in=20, n_latents=6, d=32):
        super().__init__()
        self.latents, self.queries = nn.Parameter(torch.randn(n_latents, d)), nn.Parameter(torch.randn(3, 24))
        self.fourier = nn.Linear(3, d_in)
        self.read, self.write = XAttn(d, d_in), XAttn(24, d)
        self.think = nn.ModuleList([XAttn(d) for _ in range(2)])

    def forward(self, points, valid):
        x = torch.sin(self.fourier(points))
        z = self.read(self.latents.expand(len(x), -1, -1), x, valid)
        for t in self.think:
            z = t(z)
        return self.write(self.queries.expand(len(x), -1, -1), z)


with torch.random.fork_rng():
    torch.manual_seed(41)
    model = PerceiverIO().eval()
inputs = {"points": torch.randn(3, 15, 3, generator=torch.Generator().manual_seed(41)), "valid": torch.arange(15)[None] < torch.tensor([15, 8, 11])[:, None]}
expect = {"padding": "valid keep", "positions": False}
