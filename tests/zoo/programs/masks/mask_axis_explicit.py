"""Scene fusion: object queries read the valid tokens of their scene through the fused kernel."""

import torch
import torch.nn.functional as F
from torch import nn


class Fusion(nn.Module):
    def __init__(self, dim=48, heads=4):
        super().__init__()
        self.heads = heads
        self.norm_q, self.norm_kv = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, queries, tokens, valid):
        """valid (batch, tokens): True for a token that was measured."""
        b, m, d = queries.shape
        q = self.q(self.norm_q(queries)).view(b, m, self.heads, -1).transpose(1, 2)
        k, v = self.kv(self.norm_kv(tokens)).view(b, -1, 2, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        keep = valid[:, None, None, :]
        fused = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return queries + self.out(fused.transpose(1, 2).reshape(b, m, d))


# note: AS501
with torch.random.fork_rng():
    torch.manual_seed(57)
    model = Fusion().eval()


def inputs():
    g = torch.Generator().manual_seed(57)
    return {
        "queries": torch.randn(4, 4, 48, generator=g),
        "tokens": torch.randn(4, 10, 48, generator=g),
        "valid": torch.arange(10)[None, :] < torch.tensor([10, 4, 7, 6])[:, None],
    }


expect = {"padding": "valid keep"}
