"""MIDI token language model; attention switched from MultiheadAttention to SDPA for speed."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class MidiAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = [nn.Linear(dim, dim, bias=False) for _ in range(4)]

    def forward(self, x, attn_mask):
        split = lambda t: t.unflatten(2, (self.heads, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(split(self.q(x)), split(self.k(x)), split(self.v(x)), attn_mask=attn_mask)
        return self.o(y.transpose(1, 2).flatten(2))


class MidiLM(nn.Module):
    def __init__(self, n_events=128, dim=56, heads=4, depth=2, use_ckpt=False):
        super().__init__()
        self.ev = nn.Embedding(n_events, dim)
        self.pe = nn.Embedding(256, dim)
        self.attn = nn.ModuleList([MidiAttention(dim, heads) for _ in range(depth)])
        self.mlp = nn.ModuleList([nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 100), nn.GELU(), nn.Linear(100, dim))
                                  for _ in range(depth)])
        self.pre = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, n_events)
        self.use_ckpt = use_ckpt

    def forward(self, events):
        t = events.size(1)
        causal_mask = torch.tril(torch.ones(t, t, device=events.device)).bool()
        x = self.ev(events) + self.pe(torch.arange(t, device=events.device))
        for pre, attn, mlp in zip(self.pre, self.attn, self.mlp):
            y = checkpoint(attn, pre(x), causal_mask, use_reentrant=False) if self.use_ckpt else attn(pre(x), causal_mask)
            x = x + y
            x = x + mlp(x)
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(77)
    model = MidiLM().eval()
inputs = (torch.randint(0, 128, (2, 22), generator=torch.Generator().manual_seed(77)),)
expect = {"causal": True}
