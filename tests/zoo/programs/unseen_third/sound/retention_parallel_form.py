"""RetNet retention, parallel form with decay mask (no softmax)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Retention(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.h = heads
        self.register_buffer("gamma", 1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.float)))
        self.wq, self.wk, self.wv, self.wg, self.wo = (nn.Linear(d, d, bias=False) for _ in range(5))
        self.gn = nn.GroupNorm(heads, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (w(x).view(b, n, self.h, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        i = torch.arange(n)
        rel = (i[:, None] - i[None]).float()
        decay = torch.where(rel >= 0, self.gamma[:, None, None] ** rel.clamp(min=0), torch.zeros(()))
        r = (q @ k.mT) * k.size(-1) ** -0.5 * decay
        y = (r @ v).transpose(1, 2).reshape(b * n, d)
        y = self.gn(y).view(b, n, d)
        return self.wo(F.silu(self.wg(x)) * y)


torch.manual_seed(0)
model = Retention().eval()
inputs = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
expect = {"causal": True}
