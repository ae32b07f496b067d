"""Trajectory transformer over discretised states (minimal re-implementation)."""
import torch
import torch.nn as nn

cfg = {"vocab": 64, "width": 64, "heads": 2, "layers": 2, "ctx": 40}


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        w = cfg["width"]
        self.c_attn = nn.Linear(w, 3 * w)
        self.c_proj = nn.Linear(w, w)
        self.scale = (w // cfg["heads"]) ** -0.5

    def forward(self, x, mask):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, 2)
        outs = []
        hs = C // cfg["heads"]
        for h in range(cfg["heads"]):
            sl = slice(h * hs, (h + 1) * hs)
            logits = q[..., sl] @ k[..., sl].transpose(1, 2) * self.scale
            logits = logits + mask[:T, :T]
            outs.append(torch.softmax(logits, -1) @ v[..., sl])
        return self.c_proj(torch.cat(outs, -1))


class TTO(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(cfg["vocab"], cfg["width"]), nn.Embedding(cfg["ctx"], cfg["width"])
        self.h = nn.ModuleList([Attn() for _ in range(cfg["layers"])])
        self.ln = nn.ModuleList([nn.LayerNorm(cfg["width"]) for _ in range(cfg["layers"] + 1)])
        self.register_buffer("mask", torch.full((cfg["ctx"], cfg["ctx"]), float("-inf")).triu(1), persistent=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.shape[1]))
        for i, a in enumerate(self.h):
            x = x + a(self.ln[i](x), self.mask)
        return self.ln[-1](x) @ self.tok.weight.t()


with torch.random.fork_rng():
    torch.manual_seed(88)
    model = TTO().eval()
inputs = (torch.randint(0, 64, (2, 21), generator=torch.Generator().manual_seed(88)),)
expect = {"causal": True, "scale": 32**-0.5}
