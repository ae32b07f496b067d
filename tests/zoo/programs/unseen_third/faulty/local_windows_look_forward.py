"""Local attention in blocks with look-around, autoregressive."""
import torch
from torch import nn
import torch.nn.functional as F


def look_around(x, backward=1, forward=0, pad_value=-1.0):
    t = x.shape[2]
    dims = (0,) * (2 * (x.ndim - 3))
    padded = F.pad(x, (*dims, backward, forward), value=pad_value)
    return torch.cat([padded[:, :, i : i + t] for i in range(backward + forward + 1)], dim=3)


class LocalAttention(nn.Module):
    def __init__(self, dim=32, heads=2, window_size=4, causal=True):
        super().__init__()
        self.h, self.w, self.causal = heads, window_size, causal
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        w = self.w
        pad = -n % w
        x = F.pad(x, (0, 0, 0, pad))
        q, k, v = (t.view(b, -1, self.h, d // self.h).transpose(1, 2).unflatten(2, (-1, w)) for t in self.to_qkv(x).chunk(3, -1))
        pos = torch.arange(n + pad).view(1, 1, -1, w, 1)
        bk, bv, bp = (look_around(t, 1, 1) for t in (k, v, pos))
        sim = torch.einsum("bhuie,bhuje->bhuij", q, bk) * q.shape[-1] ** -0.5
        bp = bp.squeeze(-1).unsqueeze(-2)
        mask = (bp == -1) | (bp >= n)
        if self.causal:
            mask = mask | (bp // w > pos // w + 1)  # fault: AS201
        sim = sim.masked_fill(mask, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)  # fault: AS201
        out = torch.einsum("bhuij,bhuje->bhuie", attn, bv)
        out = out.flatten(2, 3).transpose(1, 2).reshape(b, -1, d)
        return self.to_out(out[:, :n])


class LocalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.token_emb, self.pos_emb = nn.Embedding(58, 32), nn.Embedding(64, 32)
        self.layers = nn.ModuleList([LocalAttention(), LocalAttention()])
        self.norm = nn.LayerNorm(32)
        self.to_logits = nn.Linear(32, 58)

    def forward(self, x):
        x = self.token_emb(x) + self.pos_emb(torch.arange(x.shape[1]))
        for l in self.layers:
            x = x + l(self.norm(x))
        return self.to_logits(x)


torch.manual_seed(0)
model = LocalLM().eval()
inputs = torch.randint(0, 58, (2, 14), generator=torch.Generator().manual_seed(0))
expect = {"causal": True}
