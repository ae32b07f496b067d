"""Monte-Carlo dropout: forecasts are sampled, so the attention dropout stays on at test time."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MCAttention(nn.Module):
    def __init__(self, d=32, h=4, p=0.1):
        super().__init__()
        self.h, self.p = h, p
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class Bayes(nn.Module):
    def __init__(self, f=5):
        super().__init__()
        self.inp, self.pos, self.att, self.out = nn.Linear(f, 32), nn.Parameter(torch.randn(40, 32) * 0.1), MCAttention(), nn.Linear(32, 2)

    def forward(self, x):
        x = self.inp(x) + self.pos[: x.size(1)]
        return self.out(F.dropout(x + self.att(x), 0.1, training=True)[:, -1])


with torch.random.fork_rng():
    torch.manual_seed(45)
    model = Bayes().eval()
inputs = torch.randn(3, 14, 5, generator=torch.Generator().manual_seed(45))
expect = {"dropout": "on in eval"}
