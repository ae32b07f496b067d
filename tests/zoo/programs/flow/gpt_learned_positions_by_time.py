"""Small decoder for music tokens; learned positions."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class MusicDecoder(nn.Module):
    def __init__(self, n_tokens=70, dim=30, heads=5, ctx=40):
        super().__init__()
        self.heads = heads
        self.tok = nn.Embedding(n_tokens, dim)
        self.pos = nn.Embedding(ctx, dim)
        self.ln = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, n_tokens)

    def forward(self, notes):
        where = torch.arange(notes.shape[1], device=notes.device)
        x = self.tok(notes) + self.pos(where)
        h = self.ln(x)
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(h).chunk(3, dim=-1)
        )
        a = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).flatten(2))
        return self.head(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(6)
        return MusicDecoder().eval()


inputs = {"notes": torch.randint(0, 70, (4, 15), generator=torch.Generator().manual_seed(6))}
expect = {"causal": True, "batch_axis": 0, "sequence_axis": 1}
# note: AS501
