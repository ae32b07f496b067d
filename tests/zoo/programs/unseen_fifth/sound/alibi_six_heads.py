"""BLOOM-like LM with ALiBi and six heads, no position embeddings."""
import math
import torch
from torch import nn


def get_slopes(n):
    def power_of_2(m):
        start = 2 ** (-(2 ** -(math.log2(m) - 3)))
        return [start * start ** i for i in range(m)]
    if math.log2(n).is_integer():
        return power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    return power_of_2(closest) + get_slopes(2 * closest)[0::2][: n - closest]


class AlibiAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.hd = h, d // h
        self.query_key_value, self.dense = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, alibi, mask):
        b, t, d = x.shape
        q, k, v = self.query_key_value(x).view(b, t, self.h, 3, self.hd).unbind(3)
        q, k, v = (y.transpose(1, 2).reshape(b * self.h, t, self.hd) for y in (q, k, v))
        s = torch.baddbmm(alibi.repeat(b, 1, 1), q, k.transpose(1, 2), beta=1.0, alpha=self.hd ** -0.5)
        s = s.view(b, self.h, t, t).masked_fill(mask, torch.finfo(s.dtype).min)
        p = s.softmax(-1, dtype=torch.float32).view(b * self.h, t, t)
        return self.dense(torch.bmm(p, v).view(b, self.h, t, self.hd).transpose(1, 2).reshape(b, t, d))


class BloomLike(nn.Module):
    def __init__(self, vocab=99, d=48, h=6, n=2):
        super().__init__()
        self.emb, self.emb_ln = nn.Embedding(vocab, d), nn.LayerNorm(d)
        self.h = nn.ModuleList(AlibiAttention(d, h) for _ in range(n))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.register_buffer("slopes", torch.tensor(get_slopes(h)))

    def forward(self, input_ids):
        t = input_ids.shape[1]
        x = self.emb_ln(self.emb(input_ids))
        alibi = self.slopes[:, None, None] * torch.arange(t, device=x.device)[None, None, :]
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        for ln, a in zip(self.ln, self.h):
            x = x + a(ln(x), alibi, mask)
        return x @ self.emb.weight.T


with torch.random.fork_rng():
    torch.manual_seed(6)
    model = BloomLike().eval()
inputs = {"input_ids": torch.randint(0, 99, (2, 15), generator=torch.Generator().manual_seed(6))}
expect = {"causal": True}
