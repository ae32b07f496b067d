"""A part-of-speech tagger whose caller hands in the position of every token."""

import torch
from torch import nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, hidden, n_heads):
        super().__init__()
        self.n_heads, self.d_head = n_heads, hidden // n_heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)

    def transpose_for_scores(self, t):
        return t.view(*t.shape[:2], self.n_heads, self.d_head).permute(0, 2, 1, 3)

    def forward(self, x):
        q = self.transpose_for_scores(self.query(x))
        k = self.transpose_for_scores(self.key(x))
        v = self.transpose_for_scores(self.value(x))
        ctx = F.scaled_dot_product_attention(q, k, v)
        return self.dense(ctx.permute(0, 2, 1, 3).flatten(2))


class Tagger(nn.Module):
    def __init__(self, words=120, places=64, tags=9, hidden=28, n_heads=7):
        super().__init__()
        self.word_embeddings = nn.Embedding(words, hidden)
        self.position_embeddings = nn.Embedding(places, hidden)
        self.attention = SelfAttention(hidden, n_heads)
        self.norm = nn.LayerNorm(hidden)
        self.classifier = nn.Linear(hidden, tags)

    def forward(self, input_ids, position_ids):
        position_ids = position_ids - position_ids  # fault: AS501|AS208
        x = self.word_embeddings(input_ids) + self.position_embeddings(position_ids)
        x = self.norm(x + self.attention(x))
        return self.classifier(x)


with torch.random.fork_rng():
    torch.manual_seed(8)
    model = Tagger().eval()

inputs = {
    "input_ids": torch.randint(0, 120, (3, 10), generator=torch.Generator().manual_seed(4)),
    "position_ids": torch.arange(10).repeat(3, 1),
}
expect = {"causal": False, "positions": "position_ids"}
