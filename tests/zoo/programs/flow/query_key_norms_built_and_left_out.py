"""Attention of an image generator with RMS norms on queries and keys."""

import torch
from torch import nn
import torch.nn.functional as F


class JointAttention(nn.Module):
    def __init__(self, width=48, heads=6, qk_norm=True):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(width, width)
        self.to_k = nn.Linear(width, width)
        self.to_v = nn.Linear(width, width)
        self.add_kv = nn.Linear(width, 2 * width)
        self.norm_q = nn.RMSNorm(width // heads) if qk_norm else nn.Identity()  # fault: AS903
        self.norm_k = nn.RMSNorm(width // heads) if qk_norm else nn.Identity()  # fault: AS903
        self.to_out = nn.Linear(width, width)

    def forward(self, latents, text):
        q, k, v = self.to_q(latents), self.to_k(latents), self.to_v(latents)
        text_k, text_v = self.add_kv(text).chunk(2, dim=-1)
        k, v = torch.cat([k, text_k], dim=1), torch.cat([v, text_v], dim=1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)  # fault: AS903
        return latents + self.to_out(y.transpose(1, 2).flatten(2))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(145)
        return JointAttention().eval()


inputs = {
    "latents": torch.randn(2, 16, 48, generator=torch.Generator().manual_seed(145)),
    "text": torch.randn(2, 7, 48, generator=torch.Generator().manual_seed(146)),
}
# also: AS501
