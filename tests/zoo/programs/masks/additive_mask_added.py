"""Table encoder: cells attend to cells, padding rows blocked by an additive mask."""

import torch
from torch import nn


def to_additive(keep, dtype):
    """1 for real cells, 0 for padding -> 0 for real cells, a huge negative number for padding."""
    inverted = (1.0 - keep.to(dtype)) * -1e9
    return inverted[:, None, None, :]


class CellAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.out = nn.Linear(dim, dim)

    def forward(self, cells, additive):
        b, n, d = cells.shape
        q = self.q(cells).view(b, n, self.heads, -1).permute(0, 2, 1, 3)
        k = self.k(cells).view(b, n, self.heads, -1).permute(0, 2, 3, 1)
        v = self.v(cells).view(b, n, self.heads, -1).permute(0, 2, 1, 3)
        scores = torch.matmul(q, k) / (d / self.heads) ** 0.5
        scores = scores + additive
        ctx = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.out(ctx.permute(0, 2, 1, 3).reshape(b, n, d))


class TableEncoder(nn.Module):
    def __init__(self, columns=9, dim=30, heads=3, depth=2):
        super().__init__()
        self.inp = nn.Linear(columns, dim)
        self.rows = nn.Parameter(torch.randn(1, 20, dim) * 0.2)
        self.attention = nn.ModuleList(CellAttention(dim, heads) for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 2)

    def forward(self, table, keep):
        x = self.inp(table) + self.rows[:, : table.shape[1]]
        additive = to_additive(keep, x.dtype)
        for attention, norm in zip(self.attention, self.norm):
            x = x + attention(norm(x), additive)
        return self.head(x[:, 0])


with torch.random.fork_rng():
    torch.manual_seed(38)
    model = TableEncoder().eval()

inputs = {
    "table": torch.randn(4, 7, 9, generator=torch.Generator().manual_seed(38)),
    "keep": (torch.arange(7)[None] < torch.tensor([[6], [3], [5], [2]])).float(),
}
expect = {"padding": "keep keep"}
