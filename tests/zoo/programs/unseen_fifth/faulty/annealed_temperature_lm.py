"""LM with an annealed attention temperature kept in a buffer; checkpoint state from step 20k."""
# also: AS901 AS902
import torch
import torch.nn as nn
import torch.nn.functional as F


class AnnealedAttention(nn.Module):
    def __init__(self, d, h, t_start=1.0, rate=2e-4):
        super().__init__()
        self.h, self.t_start, self.rate = h, t_start, rate
        self.register_buffer("step", torch.tensor(0))
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d, bias=False) for _ in range(4))

    def temperature(self):
        return self.t_start * torch.exp(-self.rate * self.step)  # fault: AS403|AS302

    def forward(self, x):
        if self.training:
            self.step += 1
        b, t, d = x.shape
        q, k, v = (w(x).view(b, t, self.h, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        s = q @ k.mT / (d // self.h) ** 0.5
        s = s / self.temperature()  # fault: AS403|AS302
        s = s.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
        y = F.softmax(s, dim=-1) @ v  # fault: AS403|AS302
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


class AnnealedLM(nn.Module):
    def __init__(self, vocab=77, d=40, h=4, depth=2):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.layers = nn.ModuleList(AnnealedAttention(d, h) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(depth))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[: ids.shape[1]]
        for n, l in zip(self.norms, self.layers):
            x = x + l(n(x))
        return self.head(x)


def load_step(m, step=20_000):
    for layer in m.layers:
        layer.step.fill_(step)
    return m


torch.manual_seed(403)
model = load_step(AnnealedLM()).eval()
inputs = (torch.randint(0, 77, (2, 19), generator=torch.Generator().manual_seed(403)),)
