"""One module per head, head widths differ, loop over heads."""
import torch
import torch.nn as nn


class UnevenHeads(nn.Module):
    def __init__(self, d=32, sizes=(4, 8, 12)):
        super().__init__()
        self.q = nn.ModuleList(nn.Linear(d, s) for s in sizes)
        self.k = nn.ModuleList(nn.Linear(d, s) for s in sizes)
        self.v = nn.ModuleList(nn.Linear(d, s) for s in sizes)
        self.unite = nn.Linear(sum(sizes), d)
        self.sizes = sizes

    def forward(self, x):
        outs = []
        for s, q, k, v in zip(self.sizes, self.q, self.k, self.v):
            w = torch.softmax(q(x) @ k(x).transpose(1, 2) / s**0.5, -1)
            outs.append(w @ v(x))
        return self.unite(torch.cat(outs, -1))


torch.manual_seed(0)
model = UnevenHeads().eval()
inputs = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
