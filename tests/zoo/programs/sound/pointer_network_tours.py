"""Pointer network for tours: the decoder points at cities, those already visited are shut."""

import torch
import torch.nn as nn


class PointerNet(nn.Module):
    def __init__(self, hidden=28, heads=4, clip=10.0):
        super().__init__()
        self.heads, self.clip = heads, clip
        self.embed = nn.Linear(2, hidden)
        self.encoder = nn.MultiheadAttention(hidden, heads, batch_first=True)
        self.norm = nn.LayerNorm(hidden)
        self.start = nn.Parameter(torch.randn(hidden) * 0.1)
        self.cell = nn.GRUCell(hidden, hidden)
        self.W_q, self.W_k = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)

    def forward(self, cities):
        b, n, _ = cities.shape
        x = self.embed(cities)
        x = self.norm(x + self.encoder(x, x, x, need_weights=False)[0])
        state, last = x.mean(dim=1), self.start.expand(b, -1)
        keys = self.W_k(x)
        visited = torch.zeros(b, n, dtype=torch.bool, device=cities.device)
        log_probs, tour = [], []
        for _ in range(n):
            state = self.cell(last, state)
            u = torch.einsum("bd,bnd->bn", self.W_q(state), keys) / keys.shape[-1] ** 0.5
            u = self.clip * torch.tanh(u)
            logp = u.masked_fill(visited, float("-inf")).log_softmax(dim=-1)
            choice = logp.argmax(dim=-1)
            log_probs.append(logp.gather(1, choice[:, None]).squeeze(1))
            tour.append(choice)
            visited = visited.scatter(1, choice[:, None], True)
            last = x[torch.arange(b), choice]
        return torch.stack(log_probs, dim=1), torch.stack(tour, dim=1)


with torch.random.fork_rng():
    torch.manual_seed(78)
    model = PointerNet().eval()

inputs = {"cities": torch.rand(3, 8, 2, generator=torch.Generator().manual_seed(79))}
expect = {"positions": False}
# note: AS501
