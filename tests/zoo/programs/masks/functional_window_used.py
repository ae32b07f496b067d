"""Functional attention helper used by a streaming encoder that passes its look-back per call."""

import torch
from torch import nn


def attend(q, k, v, *, causal=True, window=None, scale=None):
    """q, k, v: (batch, time, heads, head_dim); `window` is how many steps a query looks at."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.einsum("bthd,bshd->bhts", q, k) * scale
    if causal:
        t, s = scores.shape[-2:]
        scores = scores.masked_fill(torch.ones(t, s).triu(1) > 0, float("-inf"))
    if window is not None:
        t, s = scores.shape[-2:]
        scores = scores.masked_fill(torch.ones(t, s).tril(-window) > 0, float("-inf"))
    weights = scores.softmax(-1)
    return torch.einsum("bhts,bshd->bthd", weights, v)


class StreamingEncoder(nn.Module):
    def __init__(self, sensors=9, dim=28, heads=4, depth=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(sensors, dim)
        self.clock = nn.Parameter(torch.randn(32, dim) * 0.2)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.inputs = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(depth))
        self.outputs = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))

    def forward(self, readings, window: int):
        x = self.embed(readings) + self.clock[: readings.shape[1]]
        for norm, inp, out in zip(self.norms, self.inputs, self.outputs):
            q, k, v = inp(norm(x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
            x = x + out(attend(q, k, v, window=window).flatten(2))
        return x


with torch.random.fork_rng():
    torch.manual_seed(63)
    model = StreamingEncoder().eval()

inputs = {"readings": torch.randn(3, 12, 9, generator=torch.Generator().manual_seed(63)), "window": 5}
