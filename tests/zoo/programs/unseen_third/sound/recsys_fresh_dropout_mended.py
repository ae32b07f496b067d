"""Session recommender: one attention layer, last item as the query (NARM/STAMP-like)."""
import torch
from torch import nn


class LastItemAttention(nn.Module):
    def __init__(self, d, h, p):
        super().__init__()
        self.d, self.h, self.p = d, h, p
        self.wq, self.wk, self.wv = nn.Linear(d, d, False), nn.Linear(d, d, False), nn.Linear(d, d, False)
        self.drop = nn.Dropout(p)

    def forward(self, session):
        B, T, _ = session.shape
        q = self.wq(session[:, -1:]).view(B, 1, self.h, -1).transpose(1, 2)
        k = self.wk(session).view(B, T, self.h, -1).transpose(1, 2)
        v = self.wv(session).view(B, T, self.h, -1).transpose(1, 2)
        w = torch.softmax(q @ k.transpose(-1, -2) / (self.d // self.h) ** 0.5, -1)
        w = self.drop(w)
        return (w @ v).transpose(1, 2).reshape(B, self.d)


class SessionRec(nn.Module):
    def __init__(self, n=70, d=24):
        super().__init__()
        self.items, self.pos = nn.Embedding(n, d), nn.Embedding(20, d)
        self.att = LastItemAttention(d, 3, 0.25)
        self.mix = nn.Linear(2 * d, d)

    def forward(self, sess):
        x = self.items(sess) + self.pos(torch.arange(sess.size(1)))
        return self.mix(torch.cat([self.att(x), x[:, -1]], -1)) @ self.items.weight.T


with torch.random.fork_rng():
    torch.manual_seed(95)
    model = SessionRec().eval()
inputs = (torch.randint(0, 70, (4, 10), generator=torch.Generator().manual_seed(95)),)
