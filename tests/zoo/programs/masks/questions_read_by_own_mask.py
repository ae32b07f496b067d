"""Answers read questions; both are padded to one length."""

import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, words=60, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.words, self.place = nn.Embedding(words, width), nn.Embedding(16, width)
        self.q, self.kv, self.out = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )

    def attend(self, x, source, keep):
        split = (*x.shape[:2], self.heads, -1)
        q = self.q(x).view(split).transpose(1, 2)
        k, v = (each.view(split).transpose(1, 2) for each in self.kv(source).chunk(2, -1))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores.masked_fill(keep[:, None, None] == 0, -1e9)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, answer, question, answer_mask, question_mask):
        at = self.place.weight[: answer.shape[1]]
        a, q = self.words(answer) + at, self.words(question) + at
        a = a + self.attend(a, a, answer_mask)
        a = a + self.attend(a, q, question_mask)
        return (a * answer_mask[..., None]).sum(1) / answer_mask.sum(1, keepdim=True)


# also: AS202 AS208 AS212
torch.manual_seed(0)
model = Reader().eval()
_at = torch.arange(10)
inputs = {
    "answer": torch.randint(0, 60, (3, 10)),
    "question": torch.randint(0, 60, (3, 10)),
    "answer_mask": (_at < torch.tensor([[10], [6], [8]])).long(),
    "question_mask": (_at < torch.tensor([[5], [10], [7]])).long(),
}
