"""Tables as text: cells attend to one another; a helper does the masked softmax."""

import torch
from torch import nn


def masked_softmax(scores, hidden, dim):
    """Return weights; hidden entries get none."""
    scores = scores.masked_fill(hidden, -1e9)
    scores = scores - scores.amax(dim, keepdim=True)
    return torch.softmax(scores, dim)


class Cells(nn.Module):
    def __init__(self, width=30, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, hidden):
        b, n, d = x.shape
        q, k, v = (p(x).view(b, n, self.heads, -1).permute(0, 2, 1, 3) for p in (self.q, self.k, self.v))
        scores = q @ k.permute(0, 1, 3, 2) / (d // self.heads) ** 0.5
        weights = masked_softmax(scores, hidden[:, None, None, :], dim=2)  # fault: AS101
        return self.o((weights @ v).permute(0, 2, 1, 3).reshape(b, n, d))


class Table(nn.Module):
    def __init__(self, words=50, width=30):
        super().__init__()
        self.word, self.row, self.column = (nn.Embedding(words, width) for _ in range(3))
        self.cells = nn.ModuleList(Cells(width) for _ in range(2))
        self.out = nn.Linear(width, 5)

    def forward(self, words, rows, columns):
        x = self.word(words) + self.row(rows) + self.column(columns)
        for cells in self.cells:
            x = x + cells(x, words == 0)
        return self.out(x)


def model():
    torch.manual_seed(73)
    return Table().eval()


_g = torch.Generator().manual_seed(73)
_words = torch.randint(1, 50, (2, 8), generator=_g)
_words[1, 6:] = 0
inputs = {
    "words": _words,
    "rows": torch.arange(8).div(4, rounding_mode="floor").expand(2, 8),
    "columns": torch.arange(8).remainder(4).expand(2, 8),
}
expect = {"padding": "words pad=0"}
# also: AS202
