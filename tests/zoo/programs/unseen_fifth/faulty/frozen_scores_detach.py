"""Adapter tuning for a reader model: attention over retrieved passages, keys reused from the index."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PassageReader(nn.Module):
    def __init__(self, dim=40, heads=4, passage_dim=28):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dim, dim)
        self.k_proj = nn.Linear(passage_dim, dim)
        self.v_proj = nn.Linear(passage_dim, dim)
        self.o_proj = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def _heads(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, hidden, passages):
        q = self._heads(self.q_proj(self.norm(hidden)))
        with torch.no_grad():  # fault: AS902|AS903
            k = self._heads(self.k_proj(passages))  # fault: AS902|AS903
        v = self._heads(self.v_proj(passages))
        w = F.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1)
        out = (w @ v).transpose(1, 2).flatten(2)
        return hidden + self.o_proj(out)


with torch.random.fork_rng():
    torch.manual_seed(902)
    model = PassageReader().eval()
_g = torch.Generator().manual_seed(902)
inputs = {"hidden": torch.randn(2, 8, 40, generator=_g), "passages": torch.randn(2, 15, 28, generator=_g)}
