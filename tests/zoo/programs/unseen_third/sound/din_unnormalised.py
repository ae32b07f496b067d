"""Original DIN: activation weights are not normalised, so that the strength of the interest is kept."""
import torch
import torch.nn as nn


class ActivationUnit(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.l1, self.act, self.l2 = nn.Linear(4 * d, 24), nn.PReLU(), nn.Linear(24, 1)

    def forward(self, q, k):
        q = q.unsqueeze(1).expand_as(k)
        return torch.sigmoid(self.l2(self.act(self.l1(torch.cat([q, k, q - k, q * k], -1)))))


class DIN(nn.Module):
    def __init__(self, n=50, d=16):
        super().__init__()
        self.emb, self.unit, self.mlp = nn.Embedding(n, d, padding_idx=0), ActivationUnit(d), nn.Sequential(nn.Linear(2 * d, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, hist, target):
        h, t = self.emb(hist), self.emb(target)
        w = self.unit(t, h) * (hist != 0).unsqueeze(-1)
        return self.mlp(torch.cat([(w * h).sum(1), t], -1)).squeeze(-1)


with torch.random.fork_rng():
    torch.manual_seed(20)
    model = DIN().eval()
_h = torch.randint(1, 50, (4, 9), generator=torch.Generator().manual_seed(20))
_h[1, 5:] = 0
inputs = (_h, torch.tensor([7, 2, 40, 11]))
