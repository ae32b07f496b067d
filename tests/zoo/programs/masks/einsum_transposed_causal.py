"""Music transformer core with einsum projections and a linear bias on distance."""

import torch
from torch import nn, einsum


class Attend(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        std = width**-0.5
        self.wq = nn.Parameter(torch.randn(heads, width, width // heads) * std)
        self.wk = nn.Parameter(torch.randn(heads, width, width // heads) * std)
        self.wv = nn.Parameter(torch.randn(heads, width, width // heads) * std)
        self.wo = nn.Parameter(torch.randn(heads, width // heads, width) * std)
        slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("slopes", slopes)

    def forward(self, x):
        n = x.shape[1]
        q = einsum("bnd,hde->bhne", x, self.wq)
        k = einsum("bnd,hde->bhne", x, self.wk)
        v = einsum("bnd,hde->bhne", x, self.wv)
        dots = einsum("bhie,bhje->bhij", q, k) * q.shape[-1] ** -0.5
        i = torch.arange(n)[None, :]
        j = torch.arange(n)[:, None]
        dots = dots - self.slopes[:, None, None] * (i - j).abs()
        dots = dots.masked_fill(j > i, float("-inf"))  # fault: AS201|AS205
        attn = dots.softmax(dim=-1)
        out = einsum("bhij,bhje->bhie", attn, v)
        return einsum("bhie,hed->bid", out, self.wo)


class MusicModel(nn.Module):
    def __init__(self, events=50, width=36, heads=4, depth=2):
        super().__init__()
        self.emb = nn.Embedding(events, width)
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                [
                    nn.LayerNorm(width),
                    Attend(width, heads),
                    nn.LayerNorm(width),
                    nn.Sequential(nn.Linear(width, 72), nn.GELU(), nn.Linear(72, width)),
                ]
            )
            for _ in range(depth)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, events))

    def forward(self, events):
        x = self.emb(events)
        for n1, attend, n2, ff in self.blocks:
            x = x + attend(n1(x))
            x = x + ff(n2(x))
        return self.head(x)


# also: AS212
with torch.random.fork_rng():
    torch.manual_seed(77)
    model = MusicModel().eval()

inputs = (torch.randint(0, 50, (2, 15), generator=torch.Generator().manual_seed(6)),)
expect = {"causal": True}
