"""Reading comprehension: passage encoder where masked positions are left out."""

import torch
import torch.nn.functional as F
from torch import nn


class MaskedSelfAttention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.w1, self.w2, self.w3 = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.size = size

    def forward(self, h, mask):
        q, k, v = self.w1(h), self.w2(h), self.w3(h)
        s = torch.bmm(q, k.permute(0, 2, 1)) / self.size**0.5
        s = s.masked_fill(mask.unsqueeze(1) == 0, -1e30)
        a = F.softmax(s, dim=2)
        return torch.bmm(a, v)


class PassageEncoder(nn.Module):
    def __init__(self, vocab=59, size=26, hops=2):
        super().__init__()
        self.vectors = nn.Embedding(vocab, size, padding_idx=0)
        self.index = nn.Embedding(21, size)
        self.hops = nn.ModuleList(MaskedSelfAttention(size) for _ in range(hops))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(hops))
        self.start_end = nn.Linear(size, 2)

    def forward(self, passage):
        mask = (passage != 0).float()
        h = self.vectors(passage) + self.index(torch.arange(passage.size(1)))
        for hop, norm in zip(self.hops, self.norms):
            h = norm(h + hop(h, mask))
        logits = self.start_end(h)
        return logits.masked_fill(mask.unsqueeze(-1) == 0, -1e30)


with torch.random.fork_rng():
    torch.manual_seed(40)
    model = PassageEncoder().eval()


def inputs():
    p = torch.randint(1, 59, (3, 13), generator=torch.Generator().manual_seed(40))
    p[1, 9:] = 0
    p[2, 5:] = 0
    return p


expect = {"padding": "passage pad=0"}
