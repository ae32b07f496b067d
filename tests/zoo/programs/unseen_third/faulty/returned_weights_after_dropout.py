"""Aspect sentiment model in train mode, attention maps go to TensorBoard."""
import torch
import torch.nn as nn


class AspectAttention(nn.Module):
    def __init__(self, d=30, h=3, p=0.4):
        super().__init__()
        self.h, self.drop = h, nn.Dropout(p)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, context):
        def heads(t):
            return t.unflatten(-1, (self.h, -1)).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(context)), heads(self.v(context))
        weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1)
        weights = self.drop(weights)  # fault: AS803
        out = self.o((weights @ v).transpose(1, 2).flatten(2))
        return out, weights.mean(1)  # fault: AS803


torch.manual_seed(0)
model = AspectAttention().train()
_g = torch.Generator().manual_seed(0)
inputs = {"x": torch.randn(2, 4, 30, generator=_g), "context": torch.randn(2, 9, 30, generator=_g)}
