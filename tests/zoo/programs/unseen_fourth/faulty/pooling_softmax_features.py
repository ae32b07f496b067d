"""Document classifier: word attention pooling after a GRU (HAN)."""
import torch
from torch import nn


class WordAttention(nn.Module):
    def __init__(self, hid, att):
        super().__init__()
        self.proj = nn.Linear(hid, att)
        self.query = nn.Parameter(torch.randn(4, att) * .3)

    def forward(self, states):
        u = torch.tanh(self.proj(states))
        logits = self.query @ u.transpose(1, 2)
        alpha = logits.softmax(dim=-2)  # fault: AS101
        return (alpha @ states).flatten(1), alpha


class HAN(nn.Module):
    def __init__(self, vocab=110, emb=20, hid=16, n_class=5):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.gru = nn.GRU(emb, hid, batch_first=True, bidirectional=True)
        self.att = WordAttention(2 * hid, 18)
        self.cls = nn.Linear(8 * hid, n_class)

    def forward(self, doc):
        vec, alpha = self.att(self.gru(self.emb(doc))[0])
        return self.cls(vec)


def model():
    torch.manual_seed(19)
    return HAN().eval()


inputs = torch.randint(0, 110, (2, 16), generator=torch.Generator().manual_seed(9))
# note: AS501
