"""Retrieval head over memory slots: the learned sharpness is the value at the end of training."""

import torch
from torch import nn
import torch.nn.functional as F


class Retrieval(nn.Module):
    def __init__(self, d=32, heads=2, log_sharpness=7.0):
        super().__init__()
        self.heads = heads
        self.log_sharpness = nn.Parameter(torch.tensor(log_sharpness))
        self.q, self.kv = nn.Linear(d, d), nn.Linear(d, 2 * d)
        self.out = nn.Linear(d, d)

    def forward(self, x, slots):
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.kv(slots).chunk(2, -1))
        cosine = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        scores = cosine * self.log_sharpness.exp()  # fault: AS403|AS302
        weights = F.softmax(scores, dim=-1)  # fault: AS403|AS302
        return x + self.out((weights @ v).transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(123)
    model = Retrieval().eval()

inputs = {
    "x": torch.randn(2, 6, 32, generator=torch.Generator().manual_seed(123)),
    "slots": torch.randn(2, 15, 32, generator=torch.Generator().manual_seed(124)),
}
# also: AS501
