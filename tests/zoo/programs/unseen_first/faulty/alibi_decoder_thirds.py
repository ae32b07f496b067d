"""Decoder with linear position biases instead of positional embeddings."""
import torch
from torch import nn


def slopes(n):
    return torch.tensor([2.0 ** (-8.0 * (i + 1) / n) for i in range(n)])


class AlibiLayer(nn.Module):
    def __init__(self, d, n_head):
        super().__init__()
        self.n_head, self.dh = n_head, d // n_head
        self.ln = nn.LayerNorm(d)
        self.query_key_value = nn.Linear(d, 3 * d)
        self.dense = nn.Linear(d, d)

    def forward(self, x, alibi):
        b, t, d = x.shape
        q, k, v = self.query_key_value(self.ln(x)).view(b, t, 3, self.n_head, self.dh).unbind(2)
        q = q.transpose(1, 2).reshape(b * self.n_head, t, self.dh)
        k = k.reshape(b * self.n_head, self.dh, t)  # fault: AS103
        v = v.transpose(1, 2).reshape(b * self.n_head, t, self.dh)
        s = torch.baddbmm(alibi.repeat(b, 1, 1), q, k, beta=1.0, alpha=self.dh ** -0.5)
        s = s.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), torch.finfo(s.dtype).min)
        p = s.softmax(-1)
        o = torch.bmm(p, v).view(b, self.n_head, t, self.dh).permute(0, 2, 1, 3).reshape(b, t, d)
        return x + self.dense(o)


class Bloomish(nn.Module):
    def __init__(self, vocab=58, d=42, n_head=6, n_layer=2):
        super().__init__()
        self.n_head = n_head
        self.word_embeddings = nn.Embedding(vocab, d)
        self.h = nn.ModuleList(AlibiLayer(d, n_head) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(d)

    def forward(self, ids):
        t = ids.shape[1]
        alibi = slopes(self.n_head)[:, None, None] * torch.arange(t)[None, None, :]
        x = self.word_embeddings(ids)
        for layer in self.h:
            x = layer(x, alibi)
        return self.ln_f(x) @ self.word_embeddings.weight.T


torch.manual_seed(64)
model = Bloomish().eval()
inputs = {"ids": torch.randint(58, (3, 12))}
# also: AS201
expect = {"causal": True}
