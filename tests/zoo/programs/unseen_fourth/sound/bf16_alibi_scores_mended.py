"""ALiBi attention by hand for the bf16 accelerator port, bias in the key index form."""
import torch
from torch import nn


class PortAttention(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.slopes = [2.0 ** (-8 * (i + 1) / heads) for i in range(heads)]

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (w(x).view(b, t, self.heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        s = torch.matmul(q, k.transpose(2, 3)) / (d // self.heads) ** 0.5
        bias = torch.tensor(self.slopes)[:, None, None] * torch.arange(t).float()
        s = s.float() + bias
        s = s.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        p = torch.softmax(s, -1).to(v.dtype)
        return self.wo(torch.matmul(p, v).transpose(1, 2).reshape(b, t, d))


def model():
    torch.manual_seed(13)
    return PortAttention().bfloat16().eval()


inputs = torch.randn(2, 400, 64, generator=torch.Generator().manual_seed(13)).bfloat16()
