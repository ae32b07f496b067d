"""l2-normalised queries and keys, fixed scale ten, QK-norm in the config."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CosSim(nn.Module):
    def __init__(self, dim=32, heads=4, scale=10):
        super().__init__()
        self.heads, self.scale = heads, scale
        self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.q_scale, self.k_scale = nn.Parameter(torch.ones(dim // heads)), nn.Parameter(torch.ones(dim // heads))

    def forward(self, x, mask=None):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        q, k = F.normalize(q, dim=-1) * self.q_scale, F.normalize(k, dim=-1) * self.k_scale
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
        return self.to_out(o.transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = CosSim().eval()
inputs = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0))
