"""Poem generator: decoder-only transformer with loops over heads."""
import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = {"vocab": 72, "dim": 40, "heads": 4, "layers": 2, "ctx": 50, "p": 0.1}


class Head(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(dim, size, bias=False) for _ in range(3))
        self.register_buffer("tril", torch.tril(torch.ones(cfg["ctx"], cfg["ctx"])))

    def forward(self, x):
        T = x.shape[1]
        k, q = self.key(x), self.query(x)
        w = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        w = w.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        w = F.dropout(F.softmax(w, dim=-1), cfg["p"])  # fault: AS701
        return w @ self.value(x)


class Poet(nn.Module):
    def __init__(self):
        super().__init__()
        d, h = cfg["dim"], cfg["heads"]
        self.tok, self.pos = nn.Embedding(cfg["vocab"], d), nn.Embedding(cfg["ctx"], d)
        self.heads = nn.ModuleList([nn.ModuleList([Head(d, d // h) for _ in range(h)]) for _ in range(cfg["layers"])])
        self.proj = nn.ModuleList([nn.Linear(d, d) for _ in range(cfg["layers"])])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(cfg["layers"])])
        self.lm_head = nn.Linear(d, cfg["vocab"])

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1], device=idx.device))
        for heads, proj, ln in zip(self.heads, self.proj, self.ln):
            y = ln(x)
            x = x + proj(torch.cat([h(y) for h in heads], dim=-1))
        return self.lm_head(x)


with torch.random.fork_rng():
    torch.manual_seed(702)
    model = Poet().eval()
inputs = (torch.randint(0, 72, (2, 16), generator=torch.Generator().manual_seed(702)),)
