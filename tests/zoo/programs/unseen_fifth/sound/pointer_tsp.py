"""Pointer network for the travelling salesman: the decoder's attention is the policy."""
import torch
import torch.nn as nn


class PointerTSP(nn.Module):
    def __init__(self, hidden=24, clip=10.0):
        super().__init__()
        self.embed = nn.Linear(2, hidden)
        self.enc = nn.GRU(hidden, hidden, batch_first=True)
        self.cell = nn.GRUCell(hidden, hidden)
        self.w_q, self.w_k = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.v = nn.Parameter(torch.empty(hidden).uniform_(-.4, .4))
        self.start = nn.Parameter(torch.randn(hidden) * 0.1)
        self.clip = clip

    def forward(self, cities):
        B, N, _ = cities.shape
        emb = self.embed(cities)
        enc, h = self.enc(emb)
        h = h[0]
        x = self.start.expand(B, -1)
        visited = torch.zeros(B, N, dtype=torch.bool, device=cities.device)
        logps, tour = [], []
        for _ in range(N):
            h = self.cell(x, h)
            u = torch.tanh(self.w_k(enc) + self.w_q(h).unsqueeze(1)) @ self.v
            u = self.clip * torch.tanh(u)
            u = u.masked_fill(visited, float("-inf"))
            p = torch.softmax(u, dim=-1)
            city = p.argmax(-1)
            logps.append(torch.log(p.gather(1, city[:, None])).squeeze(1))
            tour.append(city)
            visited = visited.scatter(1, city[:, None], True)
            x = emb[torch.arange(B), city]
        return torch.stack(logps, 1), torch.stack(tour, 1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(32)
        return PointerTSP().eval()


inputs = {"cities": torch.rand(2, 8, 2, generator=torch.Generator().manual_seed(33))}
