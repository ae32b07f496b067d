"""Explainer: attention over sentences, weights returned for drawing."""

import torch
import torch.nn.functional as F
from torch import nn


class Explained(nn.Module):
    def __init__(self, d=24, h=3):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        def heads(y):
            return y.unflatten(-1, (self.h, -1)).transpose(1, 2)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))
        y = F.scaled_dot_product_attention(q, k, v)
        scale = q.shape[-1] ** -0.5
        first = torch.softmax(q[:, :1] @ k[:, :1].mT * scale, -1)
        attn_weights = first.repeat(1, self.h, 1, 1)  # fault: AS803
        return self.o(y.transpose(1, 2).flatten(2)), attn_weights


class Sentences(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos = nn.Parameter(torch.randn(30, 24) * 0.2)
        self.att = Explained()
        self.out = nn.Linear(24, 2)

    def forward(self, sentences):
        y, w = self.att(sentences + self.pos[: sentences.shape[1]])
        return {"logits": self.out(y.mean(1)), "attention": w}


torch.manual_seed(0)
model = Sentences().eval()
inputs = torch.randn(2, 8, 24)
