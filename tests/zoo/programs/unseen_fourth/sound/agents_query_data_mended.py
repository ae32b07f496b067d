"""Multi-agent value network with attention across agents."""
import torch
import torch.nn as nn


class AgentCritic(nn.Module):
    def __init__(self, obs=10, hid=32, heads=2):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(obs, hid), nn.LeakyReLU())
        self.selectors = nn.ModuleList([nn.Linear(hid, hid // heads, bias=False) for _ in range(heads)])
        self.keys = nn.ModuleList([nn.Linear(hid, hid // heads, bias=False) for _ in range(heads)])
        self.values = nn.ModuleList([nn.Linear(hid, hid // heads) for _ in range(heads)])
        self.critic = nn.Sequential(nn.Linear(2 * hid, hid), nn.LeakyReLU(), nn.Linear(hid, 1))

    def forward(self, obs):
        n = obs.size(1)
        e = self.enc(obs)
        own = torch.eye(n, dtype=torch.bool, device=obs.device)
        other = []
        for sel, key, val in zip(self.selectors, self.keys, self.values):
            q = sel(e)
            logit = q.matmul(key(e).transpose(1, 2)) / q.size(-1) ** 0.5
            p = logit.masked_fill(own, float("-inf")).softmax(dim=2)
            other.append(p.matmul(torch.relu(val(e))))
        return self.critic(torch.cat([e] + other, -1)).squeeze(-1)


def model():
    torch.manual_seed(3)
    return AgentCritic().eval()


inputs = torch.randn(4, 5, 10, generator=torch.Generator().manual_seed(3))
# note: AS501
