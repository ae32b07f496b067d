"""Steps of a robot."""

import torch
from torch import nn
from torch.nn import functional as F

import numpy as np


class Steps(nn.Module):
    def __init__(self, width=24, longest=40):
        super().__init__()
        hidden = np.triu(np.ones((longest, longest)), k=1)
        self.register_buffer("hidden", torch.from_numpy(hidden).bool())
        self.state, self.place = nn.Linear(6, width), nn.Embedding(longest, width)
        self.q, self.k, self.v, self.head = (nn.Linear(width, width) for _ in range(4))

    def forward(self, states):
        n = states.shape[1]
        x = self.state(states) + self.place.weight[:n]
        s = torch.einsum("bid,bjd->bij", self.q(x), self.k(x)) / x.shape[-1] ** 0.5
        s = torch.where(self.hidden[:n, :n], torch.finfo(s.dtype).min, s)
        return self.head(x + torch.einsum("bij,bjd->bid", s.softmax(-1), self.v(x)))


torch.manual_seed(87)
model = Steps().eval()
inputs = torch.randn(2, 12, 6)
expect = {"causal": True}
