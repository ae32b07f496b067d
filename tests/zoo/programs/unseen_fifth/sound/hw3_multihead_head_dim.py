"""Homework 3, part 2: multi-head attention from scratch."""
import math
import torch
import torch.nn as nn


class MultiHeadAttentionHW(nn.Module):
    """
    Student solution.
    Args:
        embed_dim: total width
        num_heads: number of heads
    """

    def __init__(self, embed_dim=96, num_heads=12):
        super().__init__()
        assert embed_dim % num_heads == 0
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.W_q = nn.Linear(embed_dim, embed_dim)
        self.W_k = nn.Linear(embed_dim, embed_dim)
        self.W_v = nn.Linear(embed_dim, embed_dim)
        self.W_o = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, mask=None):
        N, L, E = x.shape
        # TODO(2a): project and split
        Q = self.W_q(x).view(N, L, self.num_heads, self.head_dim).transpose(1, 2)
        K = self.W_k(x).view(N, L, self.num_heads, self.head_dim).transpose(1, 2)
        V = self.W_v(x).view(N, L, self.num_heads, self.head_dim).transpose(1, 2)
        # TODO(2b): attention scores
        scores = torch.matmul(Q, K.transpose(-2, -1)) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        # TODO(2c): weights and output
        weights = torch.softmax(scores, dim=-1)
        out = torch.matmul(weights, V).transpose(1, 2).contiguous().view(N, L, E)
        return self.W_o(out)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(231)
        return MultiHeadAttentionHW().eval()
