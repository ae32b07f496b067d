"""A plain self-attention layer for short sequences."""

import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, input_dim):
        super(SelfAttention, self).__init__()
        self.input_dim = input_dim
        self.query = nn.Linear(input_dim, input_dim)
        self.key = nn.Linear(input_dim, input_dim)
        self.value = nn.Linear(input_dim, input_dim)
        self.softmax = nn.Softmax()  # fault: AS101|AS102

    def forward(self, x):
        queries = self.query(x)
        keys = self.key(x)
        values = self.value(x)
        scores = torch.bmm(queries, keys.transpose(1, 2)) / (self.input_dim ** 0.5)
        attention = self.softmax(scores)  # fault: AS101|AS102
        weighted = torch.bmm(attention, values)
        return weighted


with torch.random.fork_rng():
    torch.manual_seed(110)
    model = SelfAttention(18)

inputs = torch.randn(4, 7, 18, generator=torch.Generator().manual_seed(111))

# also: AS501
