"""Universal transformer: one layer three times; each round's own weights are handed out."""

import torch
from torch import nn


class Universal(nn.Module):
    def __init__(self, d=32, h=4, rounds=3):
        super().__init__()
        self.h, self.rounds = h, rounds
        self.pos = nn.Parameter(torch.randn(30, d) * 0.5)
        self.att = nn.MultiheadAttention(d, h, batch_first=True)
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        x = x + self.pos[: x.shape[1]]
        attentions = []
        for _ in range(self.rounds):
            y, w = self.att(x, x, x, average_attn_weights=False)
            x = self.norm(x + y)
            attentions.append(w)
        return {"x": x, "attentions": attentions, "summary": torch.stack(attentions).mean((0, 2))}


torch.manual_seed(0)
model = Universal().eval()
inputs = torch.randn(2, 9, 32)
