"""Two-tower matching with a learned temperature."""

import torch
from torch import nn


class Match(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.log_temp = torch.full((), 0.1, requires_grad=True)  # fault: AS903

    def forward(self, user, items):
        scores = self.q(user) @ self.k(items).mT * d_scale(user) * self.log_temp.exp()
        return user + scores.softmax(-1) @ self.v(items)


def d_scale(x):
    return x.shape[-1] ** -0.5


torch.manual_seed(0)
model = Match().eval()
inputs = {"user": torch.randn(3, 4, 32), "items": torch.randn(3, 11, 32)}
# note: AS501
