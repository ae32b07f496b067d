"""Graph attention with data-dependent temperature, normalised over the scores."""
import torch
import torch.nn as nn


class TempAttention(nn.Module):
    def __init__(self, d=36, h=3):
        super().__init__()
        self.h, self.dk = h, d // h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, n, d = x.shape
        q = self.wq(x).view(b, n, self.h, self.dk).transpose(1, 2)
        k = self.wk(x).view(b, n, self.h, self.dk).transpose(1, 2)
        v = self.wv(x).view(b, n, self.h, self.dk).transpose(1, 2)
        scores = q @ k.transpose(2, 3)
        scores = scores / (scores.std() + 1e-6)  # fault: AS305
        alpha = scores.softmax(-1)
        return self.wo((alpha @ v).transpose(1, 2).contiguous().view(b, n, d))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(7, 36)
        self.att = TempAttention()
        self.out = nn.Linear(36, 2)

    def forward(self, nodes):
        h = self.inp(nodes)
        h = h + self.att(torch.tanh(h))
        return self.out(h.mean(dim=1))


# also: AS102 AS301
with torch.random.fork_rng():
    torch.manual_seed(26)
    model = Net().eval()
inputs = (torch.randn(4, 10, 7, generator=torch.Generator().manual_seed(26)) * torch.tensor([0.5, 1.0, 2.0, 3.0])[:, None, None],)
