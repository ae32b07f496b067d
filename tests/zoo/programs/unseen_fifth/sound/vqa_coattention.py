"""Parallel co-attention for visual question answering, one affinity matrix read both ways."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CoAttention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.W_b = nn.Parameter(torch.empty(d, d))
        nn.init.xavier_uniform_(self.W_b)

    def forward(self, V, Q):
        C = torch.einsum('bqd,de,bve->bqv', Q, self.W_b, V) / V.size(-1) ** 0.5
        q2v = F.softmax(C, dim=2)
        v2q = F.softmax(C.transpose(1, 2), dim=2)
        return torch.bmm(q2v, V), torch.bmm(v2q, Q)


class VQA(nn.Module):
    def __init__(self, vocab=40, d=24, regions=10, answers=9):
        super().__init__()
        self.word = nn.Embedding(vocab, d)
        self.gru = nn.GRU(d, d, batch_first=True)
        self.img = nn.Linear(18, d)
        self.co = CoAttention(d)
        self.fc = nn.Linear(2 * d, answers)

    def forward(self, regions, question):
        q, _ = self.gru(self.word(question))
        v = torch.tanh(self.img(regions))
        vq, qv = self.co(v, q)
        return self.fc(torch.cat([(q + vq).mean(1), (v + qv).mean(1)], -1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(52)
        return VQA().eval()


g = torch.Generator().manual_seed(53)
inputs = (torch.randn(3, 10, 18, generator=g), torch.randint(0, 40, (3, 6), generator=g))
