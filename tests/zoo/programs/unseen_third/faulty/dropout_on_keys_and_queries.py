"""Attention pooling layer for reviews, keras-style port."""
import torch
import torch.nn as nn


class SelfAttentionLayer(nn.Module):
    def __init__(self, units=30, n_heads=3, rate=0.3):
        super().__init__()
        self.n_heads = n_heads
        self.Wq, self.Wk, self.Wv, self.Wo = (nn.Linear(units, units) for _ in range(4))
        self.drop = nn.Dropout(rate)

    def _heads(self, t):
        b, n, u = t.shape
        return t.reshape(b, n, self.n_heads, u // self.n_heads).permute(0, 2, 1, 3)

    def forward(self, inputs):
        q, k, v = self._heads(self.Wq(inputs)), self._heads(self.Wk(inputs)), self._heads(self.Wv(inputs))
        q, k = self.drop(q), self.drop(k)  # fault: AS702
        logits = torch.matmul(q, k.permute(0, 1, 3, 2)) / torch.sqrt(torch.tensor(float(q.shape[-1])))
        alpha = torch.softmax(logits, -1)
        out = torch.matmul(alpha, v).permute(0, 2, 1, 3).flatten(2)
        return self.Wo(out)


torch.manual_seed(0)
model = SelfAttentionLayer()
inputs = torch.randn(2, 7, 30, generator=torch.Generator().manual_seed(0))
