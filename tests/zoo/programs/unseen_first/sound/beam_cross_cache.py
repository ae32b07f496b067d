"""Caption decoder step: memory keys computed once per image, shared by all of its beams."""
import torch
import torch.nn.functional as F
from torch import nn


class BeamCross(nn.Module):
    def __init__(self, d=34, h=2, beams=3):
        super().__init__()
        self.h, self.beams = h, beams
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(20, 2 * d), nn.Linear(d, d)

    def forward(self, x, image):
        """x: (images * beams, tokens, d), image: (images, regions, 20)"""
        split = lambda t: t.unflatten(-1, (self.h, -1)).transpose(1, 2)
        k, v = map(split, self.kv(image).chunk(2, dim=-1))
        k, v = (t.repeat_interleave(self.beams, dim=0) for t in (k, v))
        y = F.scaled_dot_product_attention(split(self.q(x)), k, v)
        return self.o(y.transpose(1, 2).flatten(2))


torch.manual_seed(92)
model = BeamCross().eval()
inputs = {"x": torch.randn(6, 4, 34), "image": torch.randn(2, 7, 20)}
