"""Question generation: encoder and decoder share one function for attention."""

import torch
from torch import nn


def attention(layer, x, memory, ordered):
    b, n, d = x.shape
    q, k, v = layer["q"](x), layer["k"](memory), layer["v"](memory)
    q, k, v = (t.view(b, -1, 4, d // 4).transpose(1, 2) for t in (q, k, v))
    scores = torch.matmul(q, k.transpose(-2, -1)) / (d // 4) ** 0.5
    if ordered:
        order = torch.ones(n, memory.shape[1], dtype=torch.bool).tril()
        scores = torch.where(order, scores, torch.tensor(-1e9))
    return layer["o"](torch.matmul(scores.softmax(-1), v).transpose(1, 2).reshape(b, n, d))


def layer(width):
    return nn.ModuleDict({name: nn.Linear(width, width) for name in "qkvo"})


class Questions(nn.Module):
    def __init__(self, words=64, width=32):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(40, width)
        self.read, self.write, self.ask = layer(width), layer(width), layer(width)
        self.head = nn.Linear(width, words)

    def embed(self, ids):
        return self.words(ids) + self.places(torch.arange(ids.shape[1]))

    def forward(self, passage, question):
        m, y = self.embed(passage), self.embed(question)
        m = m + attention(self.read, m, m, ordered=False)
        y = y + attention(self.write, y, y, ordered=True)
        y = y + attention(self.ask, y, m, ordered=True)  # fault: AS212
        return self.head(y)


torch.manual_seed(68)
model = Questions().eval()
inputs = {"passage": torch.randint(0, 64, (2, 14)), "question": torch.randint(0, 64, (2, 7))}
expect = {"causal": True}
