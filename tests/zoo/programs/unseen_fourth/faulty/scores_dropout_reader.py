"""Reading comprehension matcher: passage attends to the question."""
import torch
import torch.nn as nn


class Reader(nn.Module):
    def __init__(self, vocab=95, d=28, heads=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.LSTM(d, d // 2, batch_first=True, bidirectional=True)
        self.h = heads
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.drop = nn.Dropout(0.3)
        self.span = nn.Linear(2 * d, 2)

    def heads(self, x):
        b, n, d = x.shape
        return x.view(b, n, self.h, d // self.h).transpose(1, 2)

    def forward(self, passage, question):
        p, _ = self.rnn(self.emb(passage))
        u, _ = self.rnn(self.emb(question))
        q, k, v = self.heads(self.q(p)), self.heads(self.k(u)), self.heads(self.v(u))
        s = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        w = torch.softmax(self.drop(s), dim=-1)  # fault: AS702
        c = (w @ v).transpose(1, 2).flatten(2)
        return self.span(torch.cat([p, c], -1)).unbind(-1)


def model():
    torch.manual_seed(15)
    return Reader().train()


_g = torch.Generator().manual_seed(15)
inputs = {"passage": torch.randint(0, 95, (2, 15), generator=_g), "question": torch.randint(0, 95, (2, 6), generator=_g)}
# note: AS501
