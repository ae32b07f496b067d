"""Retrieval augmented tagger: sentence attends to a bank of neighbours."""
import torch
from torch import nn
import torch.nn.functional as F


class NeighbourAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v, self.to_o = [nn.Linear(dim, dim, bias=False) for _ in range(4)]

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x, bank):
        with torch.no_grad():  # fault: AS902
            k = self.to_k(bank)  # fault: AS902
        y = F.scaled_dot_product_attention(self.split(self.to_q(x)), self.split(k), self.split(self.to_v(bank)))
        return self.to_o(y.transpose(1, 2).flatten(2))


class Tagger(nn.Module):
    def __init__(self, vocab=88, dim=36, tags=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True)
        self.near = NeighbourAttention(dim, 3)
        self.out = nn.Linear(dim, tags)

    def forward(self, words, neighbours):
        h, _ = self.lstm(self.emb(words))
        return self.out(h + self.near(h, neighbours))


torch.manual_seed(2)
model = Tagger().eval()
_g = torch.Generator().manual_seed(2)
inputs = {"words": torch.randint(0, 88, (3, 10), generator=_g), "neighbours": torch.randn(3, 14, 36, generator=_g)}
# also: AS903
# note: AS501
