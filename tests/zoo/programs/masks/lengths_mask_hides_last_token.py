"""Trajectory encoder with lengths, einsum attention and padding in the time axis."""

import torch
from torch import nn, einsum


class TrajectoryEncoder(nn.Module):
    def __init__(self, state=7, dim=30, heads=5, depth=2):
        super().__init__()
        self.heads = heads
        self.lift = nn.Linear(state, dim)
        self.clock = nn.Parameter(torch.randn(30, dim) * 0.2)
        self.qkv = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(depth))
        self.out = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.value = nn.Linear(dim, 1)

    def forward(self, states, lengths):
        t = states.shape[1]
        steps = torch.arange(t, device=states.device)
        real = steps[None, :] < lengths[:, None] - 1  # fault: AS212
        x = self.lift(states) + self.clock[:t]
        for qkv, out, norm in zip(self.qkv, self.out, self.norm):
            q, k, v = (z.unflatten(-1, (self.heads, -1)) for z in qkv(norm(x)).chunk(3, dim=-1))
            sim = einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5
            sim = sim.masked_fill(~real[:, None, None, :], -1e9)
            x = x + out(einsum("bhij,bjhd->bihd", sim.softmax(-1), v).flatten(2))
        return self.value(x).squeeze(-1)


with torch.random.fork_rng():
    torch.manual_seed(61)
    model = TrajectoryEncoder().eval()

inputs = {
    "states": torch.randn(4, 9, 7, generator=torch.Generator().manual_seed(61)),
    "lengths": torch.tensor([9, 5, 7, 4]),
}
expect = {"padding": "lengths lengths", "causal": False}
