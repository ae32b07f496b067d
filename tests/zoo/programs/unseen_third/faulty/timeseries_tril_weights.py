"""Hand-made causal attention for demand forecasting (numpy habits: np.tril of the weights)."""
import torch
from torch import nn

H = 3


class CausalAttention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.mats = nn.ParameterDict({n: nn.Parameter(torch.randn(dim, dim) * dim**-0.5) for n in ("q", "k", "v", "o")})

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = ((x @ self.mats[n]).reshape(B, T, H, D // H).swapaxes(1, 2) for n in "qkv")
        s = q @ k.swapaxes(-1, -2) / (D // H) ** 0.5
        p = torch.exp(s - s.max(-1, keepdim=True).values)
        p = p / p.sum(-1, keepdim=True)
        p = torch.tril(p)  # fault: AS204
        return (p @ v).swapaxes(1, 2).reshape(B, T, D) @ self.mats["o"]


class Demand(nn.Module):
    def __init__(self, c=4, d=30):
        super().__init__()
        self.up, self.down = nn.Linear(c, d), nn.Linear(d, 1)
        self.week = nn.Embedding(7, d)
        self.att = nn.ModuleList([CausalAttention(d), CausalAttention(d)])

    def forward(self, x, weekday):
        h = self.up(x) + self.week(weekday)
        for a in self.att:
            h = h + a(torch.nn.functional.layer_norm(h, h.shape[-1:]))
        return self.down(h)


# also: AS201
with torch.random.fork_rng():
    torch.manual_seed(111)
    model = Demand().eval()
inputs = (torch.randn(2, 17, 4, generator=torch.Generator().manual_seed(111)), (torch.arange(17) % 7).expand(2, -1))
