"""Decoder with tokens before heads, in the manner of flash attention callers."""

import torch
from torch import nn, einsum


class Attend(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, dim * 2, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, past_kv=None):
        q = self.to_q(x).unflatten(-1, (self.heads, -1))
        k, v = (t.unflatten(-1, (self.heads, -1)) for t in self.to_kv(x).chunk(2, dim=-1))
        if past_kv is not None:
            k = torch.cat((past_kv[0], k), dim=1)
            v = torch.cat((past_kv[1], v), dim=1)
        i, j = q.shape[1], k.shape[1]
        sim = einsum("b i h d, b j h d -> b h i j", q * self.scale, k)
        causal = torch.ones((i, j), dtype=torch.bool, device=x.device).triu(j - i + 1)
        attn = sim.masked_fill(causal, -torch.finfo(sim.dtype).max).softmax(dim=-1)
        out = einsum("b h i j, b j h d -> b i h d", attn, v)
        return self.to_out(out.flatten(2)), (k, v)


class Decoder(nn.Module):
    def __init__(self, num_tokens=45, dim=36, heads=6):
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens, dim)
        self.norm = nn.LayerNorm(dim)
        self.attend = Attend(dim, heads)
        self.to_logits = nn.Linear(dim, num_tokens)

    def forward(self, tokens, past_kv=None):
        x = self.token_emb(tokens)
        out, present = self.attend(self.norm(x), past_kv)
        return self.to_logits(x + out), present


with torch.random.fork_rng():
    torch.manual_seed(73)
    model = Decoder().eval()

inputs = {"tokens": torch.randint(0, 45, (3, 8), generator=torch.Generator().manual_seed(73))}
expect = {"causal": True, "cache": "past_kv"}
