"""Pointer decoder step: masked softmax by multiplying and dividing."""
import torch
import torch.nn as nn


class Pointer(nn.Module):
    def __init__(self, vocab=77, d=30):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        self.enc = nn.GRU(d, d, batch_first=True)
        self.dec = nn.GRU(d, d, batch_first=True)
        self.q, self.k = nn.Linear(d, d), nn.Linear(d, d)
        self.gen = nn.Linear(2 * d, vocab)

    def forward(self, article, headline):
        mask = (article != 0).float()
        enc, _ = self.enc(self.emb(article))
        dec, _ = self.dec(self.emb(headline))
        e = self.q(dec) @ self.k(enc).transpose(1, 2) / dec.size(-1) ** 0.5
        a = e.softmax(-1) * mask[:, None]
        a = a / a.sum(-1, keepdim=True)
        return self.gen(torch.cat([dec, a @ enc], -1)), a


def model():
    torch.manual_seed(9)
    return Pointer().eval()


_a = torch.randint(1, 77, (2, 12), generator=torch.Generator().manual_seed(9))
_a[1, 8:] = 0
inputs = {"article": _a, "headline": torch.randint(1, 77, (2, 5), generator=torch.Generator().manual_seed(10))}
expect = {"padding": "article pad=0"}
# note: AS501
