"""Sequence recommender in production: histories are left-padded to the longest of the batch."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.n1, self.n2 = h, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o, self.ff = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))

    def forward(self, x, allow):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, attn_mask=allow).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class Recommender(nn.Module):
    def __init__(self, n_items=77, d=32, h=2, max_len=30):
        super().__init__()
        self.items, self.positions = nn.Embedding(n_items, d, padding_idx=0), nn.Embedding(max_len, d)
        self.blocks = nn.ModuleList([Block(d, h) for _ in range(2)])

    def forward(self, history):
        b, t = history.shape
        real = history.ne(0)
        idx = torch.arange(t, device=history.device)[None].expand(b, t)  # fault: AS504
        x = self.items(history) + self.positions(idx)  # fault: AS504
        allow = (torch.ones(t, t, dtype=torch.bool).tril() & real[:, None, :]) | torch.eye(t, dtype=torch.bool)
        for blk in self.blocks:
            x = blk(x, allow.unsqueeze(1))
        return x[:, -1] @ self.items.weight.T


with torch.random.fork_rng():
    torch.manual_seed(143)
    model = Recommender().eval()
_h = torch.randint(1, 77, (3, 11), generator=torch.Generator().manual_seed(143))
_h[0, :6] = 0
_h[2, :3] = 0
inputs = {"history": _h}
expect = {"padding": "history pad=0"}
