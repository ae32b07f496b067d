# A language model with ReZero gates, fresh: each gate is zero, and the causal mask is forgotten.
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.alpha = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        x = x + self.alpha * self.attn(x, x, x, need_weights=False)[0]  # fault: AS201
        return x + self.alpha * self.ff(x)


class ReZeroLM(nn.Module):
    def __init__(self, vocab=40, width=16, layers=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = nn.Embedding(32, width)
        self.blocks = nn.ModuleList(Block(width, 2) for _ in range(layers))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(0)
model = ReZeroLM().eval()
inputs = torch.randint(0, 40, (3, 9))
expect = {"causal": True}
