"""History encoder of a POMDP agent: episodes of unequal length in one batch, mask made from done flags."""
import torch
from torch import nn
from torch.nn import functional as F


class HistoryEncoder(nn.Module):
    def __init__(self, obs_dim=8, width=32, heads=4):
        super().__init__()
        self.inp = nn.Linear(obs_dim, width)
        self.time = nn.Parameter(torch.randn(64, width) * 0.3)
        self.qkv = nn.Linear(width, width * 3)
        self.out = nn.Linear(width, width)
        self.value = nn.Linear(width, 1)
        self.heads = heads

    def forward(self, obs, alive):
        """alive: (B, T), 1.0 while the episode runs."""
        b, t, _ = obs.shape
        x = self.inp(obs) + self.time[:t]
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        mask = torch.tril(torch.ones(t, t)) * alive[:, None, :]
        mask = mask.unsqueeze(1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # fault: AS207
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.value(x).squeeze(-1) * alive


# also: AS201 AS202 AS208
with torch.random.fork_rng():
    torch.manual_seed(55)
    model = HistoryEncoder().eval()
_alive = (torch.arange(13)[None] < torch.tensor([13, 7, 10])[:, None]).float()
inputs = (torch.randn(3, 13, 8, generator=torch.Generator().manual_seed(5)), _alive)
