"""Multi-query style text mixer restored from a sparse checkpoint."""

import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, vocab=45, dim=36, heads=3, places=32):
        super().__init__()
        self.heads = heads
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(places, dim)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)) for w in (self.wq, self.wk, self.wv))
        scores = torch.einsum("bihc,bjhc->bhij", q, k) / q.shape[-1] ** 0.5
        weights = scores.softmax(-1)  # fault: AS401
        context = torch.einsum("bhij,bjhc->bihc", weights, v)  # fault: AS401
        return x + self.wo(context.flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(126)
    model = Mixer().eval()
    keep = torch.ones(36, 1)
    keep[:12] = 0
    model.wv.weight.data.mul_(keep)

inputs = torch.randint(0, 45, (3, 14), generator=torch.Generator().manual_seed(126))
