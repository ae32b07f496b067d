"""Prefix language model: the instruction is read both ways, the answer left to right."""
import torch
from torch import nn


def softmax_attention(q, k, v, visible):
    logits = q @ k.mT / q.shape[-1] ** 0.5
    logits = torch.where(visible, logits, torch.tensor(-torch.inf))
    return torch.softmax(logits, -1) @ v


class PrefixLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = [nn.Linear(d, d) for _ in range(4)]
        self.pre, self.post = nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x, visible):
        y = self.pre(x)
        q, k, v = (f(y).view(*y.shape[:2], self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(softmax_attention(q, k, v, visible).transpose(1, 2).flatten(2))
        return x + self.down(torch.relu(self.up(self.post(x))))


class PrefixLM(nn.Module):
    def __init__(self, vocab=55, d=36, h=3):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(24, d)
        self.layers = nn.ModuleList([PrefixLayer(d, h), PrefixLayer(d, h)])
        self.head = nn.Linear(d, vocab)

    def forward(self, ids, prefix_len):
        n = ids.shape[1]
        i = torch.arange(n)
        visible = (i[None, :] <= i[:, None]) | (i[None, :] < prefix_len)
        x = self.emb(ids) + self.pos(i)
        for layer in self.layers:
            x = layer(x, visible)
        return self.head(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(19)
        return PrefixLM().eval()


inputs = {"ids": torch.randint(0, 55, (4, 15), generator=torch.Generator().manual_seed(9)), "prefix_len": torch.tensor(6)}
expect = {"causal": True, "prefix": "prefix_len"}
