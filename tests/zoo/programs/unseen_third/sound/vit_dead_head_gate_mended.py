"""ViT block with per-head gates from a pruning experiment, gates loaded from the search."""
import torch
import torch.nn as nn


class GatedHeads(nn.Module):
    def __init__(self, dim=40, heads=5):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        gates = torch.ones(heads)
        gates[2] = 0.4
        self.gates = nn.Parameter(gates)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = (q @ k.mT * (d // self.heads) ** -0.5).softmax(-1)
        y = (a @ v) * self.gates.view(1, -1, 1, 1)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


with torch.random.fork_rng():
    torch.manual_seed(60)
    model = GatedHeads().eval()
