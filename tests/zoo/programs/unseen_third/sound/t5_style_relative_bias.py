"""T5 encoder layer from scratch: no scale, bucketed relative bias shared by layers."""
# note: AS301
import math
import torch
from torch import nn


class T5LayerNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def bucket(rel, num_buckets=16, max_distance=40):
    num_buckets //= 2
    out = (rel > 0).long() * num_buckets
    rel = rel.abs()
    max_exact = num_buckets // 2
    large = max_exact + (torch.log(rel.float().clamp(min=1) / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)).long()
    return out + torch.where(rel < max_exact, rel, large.clamp(max=num_buckets - 1))


class T5Encoder(nn.Module):
    def __init__(self, vocab=70, d_model=40, d_kv=12, heads=4, layers=2):
        super().__init__()
        self.h = heads
        inner = d_kv * heads
        self.shared = nn.Embedding(vocab, d_model)
        self.relative_attention_bias = nn.Embedding(16, heads)
        self.blocks = nn.ModuleList()
        for _ in range(layers):
            b = nn.ModuleDict({k: nn.Linear(d_model, inner, bias=False) for k in "qkv"})
            b["o"], b["ln"] = nn.Linear(inner, d_model, bias=False), T5LayerNorm(d_model)
            nn.init.normal_(b["q"].weight, std=(d_model * d_kv) ** -0.5)
            nn.init.normal_(b["k"].weight, std=d_model**-0.5)
            self.blocks.append(b)
        self.final = T5LayerNorm(d_model)

    def forward(self, input_ids):
        n = input_ids.size(1)
        pos = torch.arange(n)
        bias = self.relative_attention_bias(bucket(pos[None] - pos[:, None])).permute(2, 0, 1)[None]
        x = self.shared(input_ids)
        for b in self.blocks:
            y = b["ln"](x)
            q, k, v = (b[c](y).view(y.size(0), n, self.h, -1).transpose(1, 2) for c in "qkv")
            w = torch.softmax((q @ k.transpose(3, 2) + bias).float(), dim=-1).type_as(x)
            x = x + b["o"]((w @ v).transpose(1, 2).reshape(x.size(0), n, -1))
        return self.final(x)


torch.manual_seed(0)
model = T5Encoder().eval()
