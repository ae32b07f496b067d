"""Per-sample graph mask for nn.MultiheadAttention (needs batch*heads)."""
import torch
import torch.nn as nn


class GraphTextEncoder(nn.Module):
    def __init__(self, dim=24, heads=4):
        super().__init__()
        self.heads = heads
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, adj):
        # adj: (batch, nodes, nodes), 1 = edge
        blocked = adj == 0
        blocked = blocked.repeat(self.heads, 1, 1)  # fault: AS211
        y, _ = self.attn(x, x, x, attn_mask=blocked, need_weights=False)  # fault: AS211
        return self.norm(x + y)


torch.manual_seed(0)
model = GraphTextEncoder().eval()
_g = torch.Generator().manual_seed(0)
_adj = ((torch.rand(3, 8, 8, generator=_g) > 0.6) | torch.eye(8, dtype=torch.bool)).long()
inputs = {"x": torch.randn(3, 8, 24, generator=_g), "adj": _adj}
