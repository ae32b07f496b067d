"""Prompt cache for a decoder: prefix states are given once, later chunks attend to prefix and chunk."""

import torch
from torch import nn, einsum


class Attention(nn.Module):
    def __init__(self, dim, heads=3, dim_head=14):
        super().__init__()
        self.heads, self.scale = heads, dim_head**-0.5
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, heads * dim_head * 3, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim, bias=False)

    def forward(self, x, cached_kv=None):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        )
        if cached_kv is not None:
            ck, cv = cached_kv
            k = torch.cat((ck, k), dim=-2)
            v = torch.cat((cv, v), dim=-2)
        sim = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        i, j = sim.shape[-2:]
        causal = torch.ones((i, j), dtype=torch.bool, device=x.device).triu(1)  # fault: AS206
        sim = sim.masked_fill(causal, -torch.finfo(sim.dtype).max)  # fault: AS206
        out = einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).flatten(2)), (k, v)


class Decoder(nn.Module):
    def __init__(self, num_tokens=44, dim=32, depth=2):
        super().__init__()
        self.emb = nn.Embedding(num_tokens, dim)
        self.pos = nn.Embedding(64, dim)
        self.layers = nn.ModuleList(Attention(dim) for _ in range(depth))
        self.logits = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_tokens, bias=False))

    def forward(self, x, kv=None):
        seen = 0 if kv is None else kv[0][0].shape[-2]
        h = self.emb(x) + self.pos(torch.arange(seen, seen + x.shape[1], device=x.device))
        kvs = []
        for n, attn in enumerate(self.layers):
            out, pair = attn(h, kv[n] if kv is not None else None)
            h = h + out
            kvs.append(pair)
        return self.logits(h), kvs


# also: AS601 AS212
with torch.random.fork_rng():
    torch.manual_seed(19)
    model = Decoder().eval()


def inputs():
    """A chunk of four tokens behind a prompt of nine."""
    g = torch.Generator().manual_seed(19)
    prompt = torch.randint(0, 44, (2, 9), generator=g)
    with torch.no_grad():
        _, kv = model(prompt)
    return {"x": torch.randint(0, 44, (2, 4), generator=g), "kv": kv}


expect = {"causal": True, "cache": "kv"}
