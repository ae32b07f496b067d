"""Causal attention with its own backward, which leaves out the term of the softmax's row."""

import math

import torch
from torch import nn
from torch.autograd import Function


class CausalAttention(Function):
    @staticmethod
    def forward(q, k, v):
        n = q.shape[-2]
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        weights = scores.softmax(-1)
        return weights @ v, weights

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _grad_of_weights):  # fault: AS801
        q, k, v, weights = ctx.saved_tensors
        grad_weights = grad @ v.transpose(-1, -2)
        grad_scores = weights * grad_weights  # fault: AS801
        grad_scores = grad_scores / math.sqrt(q.shape[-1])
        return grad_scores @ k, grad_scores.transpose(-1, -2) @ q, weights.transpose(-1, -2) @ grad


class Decoder(nn.Module):
    def __init__(self, vocabulary=40, width=24):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids)
        context, _ = CausalAttention.apply(self.q(x), self.k(x), self.v(x))
        return self.head(x + context)


model = Decoder().eval()
inputs = torch.randint(0, 40, (3, 8))
expect = {"causal": True}
