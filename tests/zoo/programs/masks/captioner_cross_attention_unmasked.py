"""Region captioner: words attend to a padded set of detected regions (bmm, merged heads)."""

import torch
import torch.nn as nn


class Attn(nn.Module):
    def __init__(self, dim, ctx_dim, heads):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(ctx_dim, 2 * dim, bias=False)
        self.o = nn.Linear(dim, dim)

    def heads_first(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.h, self.d).permute(0, 2, 1, 3).reshape(b * self.h, n, self.d)

    def forward(self, x, ctx, blocked=None):
        b, n, _ = x.shape
        q = self.heads_first(self.q(x))
        k, v = map(self.heads_first, self.kv(ctx).chunk(2, -1))
        sim = torch.baddbmm(q.new_zeros(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=self.d**-0.5)
        if blocked is not None:
            sim = sim.view(b, self.h, n, -1).masked_fill(blocked, float("-inf")).view(b * self.h, n, -1)
        out = torch.bmm(sim.softmax(-1), v)
        out = out.reshape(b, self.h, n, self.d).permute(0, 2, 1, 3).reshape(b, n, -1)
        return self.o(out)


class Captioner(nn.Module):
    def __init__(self, vocab=47, dim=30, region_dim=22, heads=3):
        super().__init__()
        self.words = nn.Embedding(vocab, dim)
        self.place = nn.Parameter(torch.randn(25, dim) * 0.3)
        self.regions = nn.Sequential(nn.Linear(region_dim, dim), nn.ReLU(), nn.LayerNorm(dim))
        self.self_attn = Attn(dim, dim, heads)
        self.cross_attn = Attn(dim, dim, heads)
        self.n1, self.n2, self.n3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 60), nn.ReLU(), nn.Linear(60, dim))
        self.out = nn.Linear(dim, vocab)

    def forward(self, words, regions, region_valid):
        n = words.size(1)
        future = torch.ones(n, n, dtype=torch.bool, device=words.device).triu(1)
        x = self.words(words) + self.place[:n]
        ctx = self.regions(regions) * region_valid.unsqueeze(-1)
        x = x + self.self_attn(self.n1(x), self.n1(x), future)
        x = x + self.cross_attn(self.n2(x), ctx)  # fault: AS202
        x = x + self.ff(self.n3(x))
        return self.out(x)


with torch.random.fork_rng():
    torch.manual_seed(16)
    model = Captioner().eval()


def inputs():
    g = torch.Generator().manual_seed(16)
    valid = torch.arange(8)[None, :] < torch.tensor([8, 3, 5, 6])[:, None]
    return {
        "words": torch.randint(0, 47, (4, 7), generator=g),
        "regions": torch.randn(4, 8, 22, generator=g),
        "region_valid": valid,
    }


expect = {"causal": True, "padding": "region_valid keep"}
