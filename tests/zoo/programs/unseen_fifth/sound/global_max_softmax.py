"""My own softmax inside a non-local block: subtracts the one maximum of the whole score tensor."""
import torch
import torch.nn as nn


def stable_softmax(s):
    e = torch.exp(s - s.max())
    return e / e.sum(dim=-1, keepdim=True)


class NonLocalBlock1D(nn.Module):
    def __init__(self, c, inter=None):
        super().__init__()
        inter = inter or c // 2
        self.inter = inter
        self.theta, self.phi, self.g = nn.Conv1d(c, inter, 1), nn.Conv1d(c, inter, 1), nn.Conv1d(c, inter, 1)
        self.W = nn.Conv1d(inter, c, 1)

    def forward(self, x):
        t, p, g = self.theta(x).permute(0, 2, 1), self.phi(x), self.g(x).permute(0, 2, 1)
        y = stable_softmax(torch.matmul(t, p) / self.inter ** 0.5) @ g
        return self.W(y.permute(0, 2, 1)) + x


def model():
    with torch.random.fork_rng():
        torch.manual_seed(48)
        return nn.Sequential(nn.Conv1d(4, 20, 3, padding=1), NonLocalBlock1D(20), nn.Conv1d(20, 2, 1)).eval()


inputs = torch.randn(2, 4, 19, generator=torch.Generator().manual_seed(49))
