"""Segmentation decoder: attention biased towards nearby pixels by a Gaussian of their distance."""
import torch
import torch.nn as nn


class GaussianAttention(nn.Module):
    def __init__(self, d=32, heads=4, sigma=0.2):  # fault: AS405
        super().__init__()
        self.h = heads
        self.log_sigma = nn.Parameter(torch.full((heads, 1, 1), sigma).log())
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        i = torch.arange(n, dtype=x.dtype)
        gauss = -((i[:, None] - i[None]) ** 2) / (2 * self.log_sigma.exp() ** 2)
        a = torch.softmax(q @ k.mT / q.size(-1) ** 0.5 + gauss, dim=-1)  # fault: AS405
        return self.o((a @ v).transpose(1, 2).flatten(2))


with torch.random.fork_rng():
    torch.manual_seed(69)
    model = GaussianAttention().eval()
