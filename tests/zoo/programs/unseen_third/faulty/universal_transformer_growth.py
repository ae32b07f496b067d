"""Universal transformer for algorithmic tasks: one layer applied several times with a step embedding."""
import torch
import torch.nn as nn


class UTLayer(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, n, d = x.shape
        y = x  # fault: AS303|AS302|AS904
        q, k, v = (f(y).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(-1)  # fault: AS303|AS302|AS904
        return x + self.o((a @ v).transpose(1, 2).reshape(b, n, d))


class UT(nn.Module):
    def __init__(self, vocab=30, d=32, steps=10):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(40, d)
        self.step = nn.Embedding(steps, d)
        self.layer = UTLayer(d)
        self.steps = steps
        nn.init.normal_(self.layer.o.weight, std=0.3)
        nn.init.normal_(self.layer.v.weight, std=0.3)
        self.out = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[: ids.size(1)]
        for s in range(self.steps):
            x = self.layer(x + self.step.weight[s])
        return self.out(x)


# also: AS902 AS901 AS403 AS404 AS903
with torch.random.fork_rng():
    torch.manual_seed(23)
    model = UT().eval()
inputs = (torch.randint(0, 30, (2, 13), generator=torch.Generator().manual_seed(23)),)
