"""Session recommender: the padding mask is written into a copy of the scores."""
import math

import torch
from torch import nn


class SessionAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width)
        self.to_out = nn.Linear(width, width)

    def forward(self, x, keep):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        logits = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(d // self.heads)
        torch.where(keep[:, None, None, :], logits, torch.full_like(logits, -1e9))  # fault: AS202|AS208
        mixed = torch.einsum("bhqk,bhkd->bhqd", logits.softmax(-1), v)
        return x + self.to_out(mixed.transpose(1, 2).flatten(2))


class SessionModel(nn.Module):
    def __init__(self, items=70, width=32):
        super().__init__()
        self.items = nn.Embedding(items, width, padding_idx=0)
        self.places = nn.Embedding(40, width)
        self.attention = SessionAttention(width, 4)
        self.score = nn.Linear(width, items)

    def forward(self, session, keep):
        x = self.items(session) + self.places.weight[: session.shape[1]]
        return self.score(self.attention(x, keep))


def model():
    torch.manual_seed(21)
    return SessionModel().eval()


inputs = {
    "session": torch.tensor([[4, 9, 12, 33, 8, 51, 6], [7, 41, 3, 15, 0, 0, 0]]),
    "keep": torch.tensor([[True] * 7, [True] * 4 + [False] * 3]),
}
expect = {"padding": "keep keep"}
