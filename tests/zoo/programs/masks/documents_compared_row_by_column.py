"""Packed chats: a helper in the data module says which turns belong together."""

import torch
from torch import nn
from torch.nn import functional as F


class Packing:
    """What a packed row needs to know of itself."""

    def __init__(self, chat):
        self.chat = chat

    def places(self):
        same = self.chat[:, :, None] == self.chat[:, None, :]
        return same.tril().sum(-1) - 1

    def visible(self):
        n = self.chat.shape[1]
        together = self.chat[:, :, None] == self.chat[:, None, :]
        return (together & torch.ones(n, n, dtype=torch.bool).tril())[:, None]


class Chats(nn.Module):
    def __init__(self, words=75, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.words, self.where = nn.Embedding(words, width), nn.Embedding(32, width)
        self.inner = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.outer = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.head = nn.Linear(width, words)

    def forward(self, ids, chat):
        packing = Packing(chat)
        x, visible = self.words(ids) + self.where(packing.places()), packing.visible()
        for inner, outer in zip(self.inner, self.outer):
            b, n, d = x.shape
            q, k, v = inner(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=visible)
            x = x + outer(y.transpose(1, 2).reshape(b, n, d))
        return self.head(x)


torch.manual_seed(69)
model = Chats().eval()
inputs = {
    "ids": torch.randint(0, 75, (2, 12)),
    "chat": torch.tensor([[0] * 5 + [1] * 7, [0] * 3 + [1] * 4 + [2] * 5]),
}
expect = {"causal": True, "documents": "chat"}
