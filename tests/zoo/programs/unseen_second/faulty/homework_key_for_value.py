"""Assignment 4, part 2: multi-head self-attention from scratch."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class SingleHead(nn.Module):
    def __init__(self, in_dim, head_dim):
        super().__init__()
        self.Wq = nn.Linear(in_dim, head_dim, bias=False)
        self.Wk = nn.Linear(in_dim, head_dim, bias=False)
        self.Wv = nn.Linear(in_dim, head_dim, bias=False)

    def forward(self, X, mask):
        Q, K, V = self.Wq(X), self.Wk(X), self.Wk(X)  # fault: AS903|AS107
        d_k = K.shape[-1]
        scores = torch.matmul(Q, K.transpose(1, 2)) / d_k ** 0.5
        scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return torch.matmul(weights, V)


class MultiHead(nn.Module):
    def __init__(self, in_dim, n_heads, p_drop=0.1):
        super().__init__()
        assert in_dim % n_heads == 0
        self.heads = nn.ModuleList([SingleHead(in_dim, in_dim // n_heads) for _ in range(n_heads)])
        self.Wo = nn.Linear(in_dim, in_dim)
        self.drop = p_drop

    def forward(self, X):
        # causal mask as in the lecture slides
        T = X.shape[1]
        mask = torch.tril(torch.ones(T, T))
        out = torch.cat([head(X, mask) for head in self.heads], dim=-1)
        out = self.Wo(out)
        return F.dropout(out, self.drop, self.training)


class Student(nn.Module):
    def __init__(self, vocab=50, dim=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(40, dim)
        self.attn = MultiHead(dim, 4)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.tok(ids) + self.pos(torch.arange(ids.shape[1]))
        h = h + self.attn(self.norm(h))
        return self.out(h)


torch.manual_seed(447)
model = Student().eval()
inputs = torch.randint(0, 50, (3, 12))
expect = {"causal": True}
# also: AS903 AS902
