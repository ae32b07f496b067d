"""Memory-efficient attention, keys processed in buckets."""
import torch
from torch import nn


def summarize_qkv_chunk(q, k, v):
    weight = torch.einsum("b h i d, b h j d -> b h i j", q, k)
    weight = weight.softmax(dim=-1)  # fault: AS101|AS204
    weighted_value = torch.einsum("b h i j, b h j d -> b h i d", weight, v)
    return weight.sum(dim=-1), weighted_value


class MemEffAttention(nn.Module):
    def __init__(self, dim=32, heads=4, bucket=4):
        super().__init__()
        self.heads, self.bucket = heads, bucket
        self.scale = (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        q = q * self.scale
        summaries = [summarize_qkv_chunk(q, kc, vc) for kc, vc in zip(k.split(self.bucket, 2), v.split(self.bucket, 2))]
        sums, values = map(torch.stack, zip(*summaries))
        out = values.sum(0) / sums.sum(0).unsqueeze(-1)  # fault: AS101|AS204
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


torch.manual_seed(0)
model = MemEffAttention().eval()
inputs = torch.randn(2, 11, 32, generator=torch.Generator().manual_seed(1))
