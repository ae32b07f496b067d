"""Rotary decoder layer built empty, then initialised in one pass."""

import torch
from torch import nn


class RotaryPositions(nn.Module):
    def __init__(self, size, theta=10000.0):
        super().__init__()
        self.size, self.theta = size, theta
        self.register_buffer("inv_freq", torch.zeros(size // 2), persistent=False)  # fault: AS505|AS501

    def reset_parameters(self):
        steps = torch.arange(0, self.size, 2).float() / self.size
        self.inv_freq.copy_(1.0 / self.theta**steps)

    def forward(self, x):
        angle = torch.arange(x.shape[2]).float()[:, None] * self.inv_freq  # fault: AS505|AS501
        cos, sin = angle.cos(), angle.sin()
        left, right = x.chunk(2, dim=-1)
        return torch.cat((left * cos - right * sin, left * sin + right * cos), dim=-1)


class Layer(nn.Module):
    def __init__(self, width=40, heads=5):
        super().__init__()
        self.heads = heads
        self.rotary = RotaryPositions(width // heads)
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)
        self.apply(self.init_weights)

    def init_weights(self, module):
        if isinstance(module, nn.Linear):  # fault: AS505|AS501
            nn.init.xavier_uniform_(module.weight)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (
            p(x).view(b, t, self.heads, -1).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = self.rotary(q), self.rotary(k)
        scores = q @ k.mT * (w // self.heads) ** -0.5
        out = scores.softmax(dim=-1) @ v
        return self.o_proj(out.transpose(1, 2).reshape(b, t, w))


with torch.random.fork_rng():
    torch.manual_seed(67)
    model = Layer().eval()

inputs = torch.randn(2, 13, 40, generator=torch.Generator().manual_seed(67))
# also: AS501
