"""Left-padded prompts in a rotary decoder: distances alone count."""

import torch
from torch import nn
import torch.nn.functional as F


class RotaryDecoder(nn.Module):
    def __init__(self, vocab=62, dim=40, heads=5):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, dim)
        self.norm = nn.LayerNorm(dim)
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.head = nn.Linear(dim, vocab, bias=False)
        size = dim // heads
        self.register_buffer("rate", 10000.0 ** (-torch.arange(0, size, 2) / size))

    def turn(self, x):
        angle = torch.arange(x.shape[2])[:, None] * self.rate
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def forward(self, input_ids, attention_mask):
        x = self.embed(input_ids)
        h = self.norm(x)
        q, k, v = (f(h).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        t = input_ids.shape[1]
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        allowed = causal & attention_mask.bool()[:, None, None] | torch.eye(t, dtype=torch.bool)
        y = F.scaled_dot_product_attention(self.turn(q), self.turn(k), v, attn_mask=allowed)
        return self.head(x + self.o(y.transpose(1, 2).flatten(2)))


mask = torch.ones(3, 13, dtype=torch.long)
mask[0, :6] = 0
mask[1, :2] = 0
ids = torch.randint(1, 62, (3, 13), generator=torch.Generator().manual_seed(152))

with torch.random.fork_rng():
    torch.manual_seed(152)
    model = RotaryDecoder().eval()

inputs = {"input_ids": ids * mask, "attention_mask": mask}
expect = {"causal": True, "padding": "attention_mask keep"}
