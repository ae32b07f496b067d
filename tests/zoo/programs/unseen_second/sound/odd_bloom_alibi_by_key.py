"""ALiBi the BLOOM way: slope times key position, eleven heads."""

import math
import torch
from torch import nn


def slopes(n):
    near = 2 ** math.floor(math.log2(n))
    base = [2 ** (-8 * (i + 1) / near) for i in range(near)]
    extra = [2 ** (-4 * (2 * i + 1) / near) for i in range(n - near)]
    return torch.tensor(base + extra)


class Bloomish(nn.Module):
    def __init__(self, vocab=50, d=44, heads=11):
        super().__init__()
        self.heads = heads
        self.word, self.ln = nn.Embedding(vocab, d), nn.LayerNorm(d)
        self.query_key_value, self.dense = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.register_buffer("slopes", slopes(heads))

    def forward(self, input_ids, attention_mask):
        b, t = input_ids.shape
        x = self.word(input_ids)
        place = (attention_mask.cumsum(-1) - 1) * attention_mask
        alibi = (self.slopes[None, :, None] * place[:, None, :]).reshape(b * self.heads, 1, t)
        q, k, v = self.query_key_value(self.ln(x)).view(b, t, self.heads, 3, -1).permute(3, 0, 2, 1, 4)
        q, k, v = (s.reshape(b * self.heads, t, -1) for s in (q, k, v))
        s = torch.baddbmm(alibi, q, k.transpose(1, 2), beta=1.0, alpha=q.size(-1) ** -0.5).view(b, self.heads, t, t)
        blocked = torch.ones(t, t).triu(1).bool() | ~attention_mask.bool()[:, None, None, :]
        w = s.masked_fill(blocked, torch.finfo(s.dtype).min).softmax(-1, dtype=torch.float32)
        y = torch.bmm(w.view(b * self.heads, t, t), v).view(b, self.heads, t, -1).transpose(1, 2).reshape(b, t, -1)
        return (x + self.dense(y)) @ self.word.weight.T


torch.manual_seed(18)
model = Bloomish().eval()
am = (torch.arange(13)[None] >= torch.tensor([[0], [4], [6]])).long()
inputs = {"input_ids": torch.randint(0, 50, (3, 13)), "attention_mask": am}
expect = {"causal": True, "padding": "attention_mask keep"}
