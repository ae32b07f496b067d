"""Goal-conditioned trajectory model: goal and context tokens are a prefix seen by everybody, actions are causal."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GoalModel(nn.Module):
    def __init__(self, obs=8, d=32, h=4, prefix=4):
        super().__init__()
        self.h, self.prefix = h, prefix
        self.inp, self.pos, self.ln = nn.Linear(obs, d), nn.Parameter(torch.randn(40, d) * 0.2), nn.ModuleList([nn.LayerNorm(d) for _ in range(2)])
        self.qkv, self.o = nn.ModuleList([nn.Linear(d, 3 * d) for _ in range(2)]), nn.ModuleList([nn.Linear(d, d) for _ in range(2)])

    def forward(self, steps):
        b, t, _ = steps.shape
        x = self.inp(steps) + self.pos[:t]
        i = torch.arange(t)
        allow = (i[None] <= i[:, None]) | (i[None] < self.prefix)
        for ln, qkv, o in zip(self.ln, self.qkv, self.o):
            q, k, v = qkv(ln(x)).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
            x = x + o(F.scaled_dot_product_attention(q, k, v, attn_mask=allow).transpose(1, 2).reshape(b, t, -1))
        return x


with torch.random.fork_rng():
    torch.manual_seed(67)
    model = GoalModel().eval()
inputs = torch.randn(2, 15, 8, generator=torch.Generator().manual_seed(67))
expect = {"causal": True, "prefix": 4}
