"""Class and text conditioned denoiser with optional self mode."""
import torch
from torch import nn
import torch.nn.functional as F


class CondAttention(nn.Module):
    def __init__(self, c, ctx, heads):
        super().__init__()
        self.heads = heads
        self.ctx_in = nn.Linear(ctx, c)
        self.q, self.kv, self.o = nn.Linear(c, c), nn.Linear(c, 2 * c), nn.Linear(c, c)

    def forward(self, x, context=None):
        ctx = self.ctx_in(context) if context is not None else x
        q = self.q(x)
        k, v = self.kv(x).chunk(2, -1)  # fault: AS107
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (q, k, v))
        return x + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class CondDenoiser(nn.Module):
    def __init__(self, c=32, ctx=20):
        super().__init__()
        self.i = nn.Conv2d(3, c, 3, 2, 1)
        self.pos = nn.Parameter(torch.randn(1, 36, c) * .1)
        self.a = CondAttention(c, ctx, 4)
        self.o = nn.ConvTranspose2d(c, 3, 2, 2)

    def forward(self, noisy, text):
        f = self.i(noisy)
        x = self.a(f.flatten(2).mT + self.pos, context=text)
        return self.o(x.mT.reshape_as(f))


def model():
    torch.manual_seed(5)
    return CondDenoiser().eval()


_g = torch.Generator().manual_seed(5)
inputs = {"noisy": torch.randn(2, 3, 12, 12, generator=_g), "text": torch.randn(2, 8, 20, generator=_g)}
# also: AS208 AS903
# note: AS501
