"""Keys and values share one tensor, single kv head, query norm."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SharedKV(nn.Module):
    def __init__(self, d=40, h=5):
        super().__init__()
        self.h = h
        self.to_q, self.to_kv, self.to_out = nn.Linear(d, d), nn.Linear(d, d // h), nn.Linear(d, d)
        self.qn = nn.LayerNorm(d // h)

    def forward(self, x, context=None):
        c = x if context is None else context
        q = self.qn(self.to_q(x).unflatten(-1, (self.h, -1))).transpose(1, 2)
        kv = self.to_kv(c).unsqueeze(1)
        o = F.scaled_dot_product_attention(q, kv, kv, enable_gqa=True)
        return self.to_out(o.transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = SharedKV().eval()
_g = torch.Generator().manual_seed(0)
inputs = {"x": torch.randn(2, 6, 40, generator=_g), "context": torch.randn(2, 9, 40, generator=_g)}
