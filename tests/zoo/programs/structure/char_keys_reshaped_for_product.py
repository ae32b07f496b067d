"""Self-attention of a character model; keys are laid out for the product."""
import math
import torch
from torch import nn

class SelfAttention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.d = heads, width // heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        h, d = self.heads, self.d
        q = self.q(x).view(b, t, h, d).transpose(1, 2)
        k = self.k(x).view(b, t, h, d).transpose(1, 2)
        v = self.v(x).view(b, t, h, d).transpose(1, 2)
        scores = q @ k.reshape(b, h, d, t) / math.sqrt(d)  # fault: AS103
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = SelfAttention().eval()
inputs = torch.randn(3, 16, 32, generator=torch.Generator().manual_seed(1))
