"""Image classifier: the fixed query vector of the pooling stays as it was drawn, the rest is trained."""

import torch
from torch import nn
from torch.nn import functional as F


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (
            f(x).view(b, n, self.heads, -1).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        return self.output(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))


class Classifier(nn.Module):
    def __init__(self, width=32, classes=6, depth=2):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.places = nn.Parameter(torch.randn(1, 12, width) * 0.1)
        self.query_token = nn.Parameter(torch.randn(1, 1, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.attention = nn.ModuleList(SelfAttention(width, 4) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2) + self.places
        for norm, attention in zip(self.norms, self.attention):
            x = x + attention(norm(x))
        return self.head((self.query_token @ x.transpose(1, 2)).softmax(-1) @ x)


def build():
    torch.manual_seed(12)
    net = Classifier()
    for name, parameter in net.named_parameters():
        if "query" in name:
            parameter.requires_grad = False  # fault: AS903|AS902
    return net


model = build()
inputs = torch.randn(2, 3, 12, 16, generator=torch.Generator().manual_seed(12))
# also: AS301
