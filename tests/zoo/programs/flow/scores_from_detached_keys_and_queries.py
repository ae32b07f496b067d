"""Image-text fusion: attention maps are also kept for the dashboard."""

import math

import torch
from torch import nn


class Fusion(nn.Module):
    def __init__(self, d=30, heads=3):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(d, d) for _ in range(3))
        self.mix = nn.Linear(d, d)
        self.last_map = None

    def forward(self, text, image):
        def split(t):
            return t.unflatten(2, (self.heads, -1)).transpose(1, 2)

        q = split(self.to_q(text)).detach()  # fault: AS902
        k = split(self.to_k(image)).detach()  # fault: AS902
        v = split(self.to_v(image))
        attn = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
        self.last_map = attn
        return text + self.mix((attn @ v).transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(93)
    model = Fusion().train()

inputs = {
    "text": torch.randn(2, 6, 30, generator=torch.Generator().manual_seed(93)),
    "image": torch.randn(2, 9, 30, generator=torch.Generator().manual_seed(94)),
}
# also: AS903 AS501
