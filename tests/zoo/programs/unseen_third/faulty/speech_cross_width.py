"""Attention decoder of a speech recogniser; encoder and decoder have different widths."""
import torch
from torch import nn


class SourceTargetAttention(nn.Module):
    def __init__(self, dec_dim, enc_dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dec_dim // heads
        self.q = nn.Linear(dec_dim, dec_dim)
        self.k = nn.Linear(enc_dim, enc_dim)
        self.v = nn.Linear(enc_dim, dec_dim)
        self.o = nn.Linear(dec_dim, dec_dim)

    def forward(self, y, memory):
        b, u, _ = y.shape
        t = memory.size(1)
        q = self.q(y).reshape(b, u, self.heads, -1).transpose(1, 2)
        k = self.k(memory).reshape(b, t, self.heads, -1).transpose(1, 2)
        v = self.v(memory).reshape(b, t, self.heads, -1).transpose(1, 2)
        e = torch.matmul(q, k.transpose(-2, -1)) / self.hd**0.5  # fault: AS105
        c = torch.matmul(e.softmax(-1), v)
        return self.o(c.transpose(1, 2).reshape(b, u, -1))


class AttDecoder(nn.Module):
    def __init__(self, vocab=29, dec_dim=32, enc_dim=48, heads=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dec_dim)
        self.rnn = nn.GRU(dec_dim, dec_dim, batch_first=True)
        self.att = SourceTargetAttention(dec_dim, enc_dim, heads)
        self.out = nn.Linear(2 * dec_dim, vocab)

    def forward(self, ys, memory):
        s, _ = self.rnn(self.emb(ys))
        return self.out(torch.cat([s, self.att(s, memory)], -1))


with torch.random.fork_rng():
    torch.manual_seed(30)
    model = AttDecoder().eval()
_g = torch.Generator().manual_seed(30)
inputs = {"ys": torch.randint(0, 29, (2, 8), generator=_g), "memory": torch.randn(2, 21, 48, generator=_g)}
