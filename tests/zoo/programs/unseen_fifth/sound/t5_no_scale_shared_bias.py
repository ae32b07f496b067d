"""T5-like encoder: no score scaling, the relative bias of the first layer is reused by the others."""
import math
import torch
from torch import nn


class T5Attention(nn.Module):
    def __init__(self, d_model, d_kv, n_heads, has_bias):
        super().__init__()
        inner = d_kv * n_heads
        self.n_heads, self.d_kv, self.has_bias = n_heads, d_kv, has_bias
        self.q, self.k, self.v = (nn.Linear(d_model, inner, bias=False) for _ in range(3))
        self.o = nn.Linear(inner, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)
        if has_bias:
            self.relative_attention_bias = nn.Embedding(16, n_heads)

    @staticmethod
    def bucket(rel, num=16, max_distance=40):
        num //= 2
        out = (rel > 0).long() * num
        n = rel.abs()
        exact = num // 2
        large = exact + (torch.log(n.float().clamp(min=1) / exact) / math.log(max_distance / exact) * (num - exact)).long()
        return out + torch.where(n < exact, n, large.clamp(max=num - 1))

    def forward(self, x, bias=None):
        b, n, _ = x.shape
        q, k, v = (f(x).view(b, n, self.n_heads, self.d_kv).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(3, 2)
        if bias is None:
            p = torch.arange(n, device=x.device)
            bias = self.relative_attention_bias(self.bucket(p[None] - p[:, None])).permute(2, 0, 1)[None]
        w = (scores + bias).float().softmax(-1).type_as(scores)
        return self.o((w @ v).transpose(1, 2).reshape(b, n, -1)), bias


class T5Encoder(nn.Module):
    def __init__(self, vocab=120, d_model=48, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.layers = nn.ModuleList(T5Attention(d_model, 10, 4, i == 0) for i in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(d_model, eps=1e-6) for _ in range(layers + 1))

    def forward(self, input_ids):
        x, bias = self.embed(input_ids), None
        for n, l in zip(self.norms, self.layers):
            y, bias = l(n(x), bias)
            x = x + y
        return self.norms[-1](x)


torch.manual_seed(3)
model = T5Encoder().eval()
inputs = {"input_ids": torch.randint(0, 120, (2, 13), generator=torch.Generator().manual_seed(3))}
