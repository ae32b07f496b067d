"""Policy: landmarks see one another, actions are decoded one after another and read the landmarks."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width=32, heads=4, ordered=False):
        super().__init__()
        self.ordered = ordered
        self.mix = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, source=None):
        source = x if source is None else source
        later = None
        if self.ordered:
            later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.norm(x + self.mix(x, source, source, attn_mask=later, need_weights=False)[0])


class Policy(nn.Module):
    def __init__(self, places=7, actions=5, width=32):
        super().__init__()
        self.landmark, self.action = nn.Linear(places, width), nn.Embedding(actions, width)
        self.step = nn.Parameter(torch.randn(6, width) * 0.3)
        self.encoder, self.decoder = Block(width), Block(width, ordered=True)
        self.read = Block(width)
        self.head = nn.Linear(width, actions)

    def forward(self, landmarks, previous):
        seen = self.encoder(self.landmark(landmarks))
        x = self.decoder(self.action(previous) + self.step)
        return self.head(self.read(x, seen))


torch.manual_seed(3)
model = Policy().eval()
inputs = (torch.randn(2, 6, 7), torch.randint(0, 5, (2, 6)))
expect = {"causal": True}
