"""Causal transformer in the lucidrains manner with optional key mask."""
import torch
import torch.nn.functional as F
from torch import einsum, nn

exists = lambda v: v is not None
default = lambda v, d: v if exists(v) else d


def heads_first(t, h):
    b, n, hd = t.shape
    return t.reshape(b, n, h, hd // h).permute(0, 2, 1, 3)


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(dim), fn

    def forward(self, x, **kw):
        return self.fn(self.norm(x), **kw)


class Attention(nn.Module):
    def __init__(self, dim, heads=4, dim_head=10, causal=True):
        super().__init__()
        self.heads, self.causal, self.scale = heads, causal, dim_head ** -0.5
        self.null_kv = nn.Parameter(torch.randn(2, heads, 1, dim_head))
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(dim, heads * dim_head * 2, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim)

    def forward(self, x, context=None, mask=None):
        h = self.heads
        q, k, v = (heads_first(t, h) for t in (self.to_q(x), *self.to_kv(default(context, x)).chunk(2, dim=-1)))
        nk, nv = (t.expand(x.shape[0], -1, -1, -1) for t in self.null_kv)
        k, v = torch.cat((nk, k), dim=-2), torch.cat((nv, v), dim=-2)
        sim = einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        neg = -torch.finfo(sim.dtype).max
        if exists(mask):
            mask = F.pad(mask, (1, 0), value=True)
            sim = sim.masked_fill(~mask[:, None, None, :], neg)
        if self.causal:
            i, j = sim.shape[-2:]
            causal_mask = torch.ones((i, j), dtype=torch.bool).triu(j - i + 1)
            sim = sim.masked_fill(causal_mask, neg)
        attn = sim.softmax(dim=-1)
        out = einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(out.permute(0, 2, 1, 3).flatten(2))


class Transformer(nn.Module):
    def __init__(self, num_tokens=59, dim=30, depth=2, max_seq_len=32):
        super().__init__()
        self.token_emb, self.pos_emb = nn.Embedding(num_tokens, dim), nn.Embedding(max_seq_len, dim)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                PreNorm(dim, Attention(dim)),
                PreNorm(dim, nn.Sequential(nn.Linear(dim, dim * 4), nn.GELU(), nn.Linear(dim * 4, dim))),
            ]))
        self.to_logits = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, num_tokens))

    def forward(self, x, mask=None):
        pos = torch.arange(x.shape[1]).expand_as(x)  # fault: AS504
        x = self.token_emb(x) + self.pos_emb(pos)  # fault: AS504
        for attn, ff in self.layers:
            x = attn(x, mask=mask) + x
            x = ff(x) + x
        return self.to_logits(x)


with torch.random.fork_rng():
    torch.manual_seed(77)
    model = Transformer().eval()
    tokens = torch.randint(0, 59, (3, 14))
mask = torch.arange(14) >= torch.tensor([0, 4, 6])[:, None]
inputs = {"x": tokens, "mask": mask}
expect = {"causal": True, "padding": "mask keep"}
