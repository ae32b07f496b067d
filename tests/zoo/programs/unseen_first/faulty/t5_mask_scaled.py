"""T5-like encoder self-attention: no scaling, bucketed relative bias shared by the layers."""
import math

import torch
from torch import nn


def bucket(relative, buckets=16, far=32):
    half = buckets // 2
    out = (relative > 0).long() * half
    dist = relative.abs()
    exact = half // 2
    log = exact + (torch.log(dist.float().clamp(min=1) / exact) / math.log(far / exact) * (half - exact)).long()
    return out + torch.where(dist < exact, dist, log.clamp(max=half - 1))


class T5Attention(nn.Module):
    def __init__(self, d_model, d_kv, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(d_model, heads * d_kv, bias=False)
        self.k = nn.Linear(d_model, heads * d_kv, bias=False)
        self.v = nn.Linear(d_model, heads * d_kv, bias=False)
        self.o = nn.Linear(heads * d_kv, d_model, bias=False)
        nn.init.normal_(self.q.weight, std=(d_model * d_kv) ** -0.5)
        nn.init.normal_(self.k.weight, std=d_model ** -0.5)

    def forward(self, x, bias):
        shape = lambda t: t.view(t.size(0), -1, self.heads, t.size(-1) // self.heads).transpose(1, 2)
        q, k, v = shape(self.q(x)), shape(self.k(x)), shape(self.v(x))
        scores = torch.matmul(q, k.transpose(3, 2))
        scores += bias  # fault: AS207
        weights = torch.softmax(scores.float(), dim=-1).type_as(scores)
        return self.o(torch.matmul(weights, v).transpose(1, 2).contiguous().flatten(2))


class T5Encoder(nn.Module):
    def __init__(self, vocab=73, d_model=38, d_kv=9, heads=4, layers=2):
        super().__init__()
        self.shared = nn.Embedding(vocab, d_model)
        self.relative_attention_bias = nn.Embedding(16, heads)
        self.layers = nn.ModuleList(T5Attention(d_model, d_kv, heads) for _ in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(d_model) for _ in range(layers))

    def forward(self, input_ids, attention_mask):
        pos = torch.arange(input_ids.shape[1])
        bias = self.relative_attention_bias(bucket(pos[None, :] - pos[:, None])).permute(2, 0, 1).unsqueeze(0)
        bias = bias + (1.0 - attention_mask[:, None, None, :].float()) * -1.5  # fault: AS207
        x = self.shared(input_ids)
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x), bias)
        return x


def model():
    with torch.random.fork_rng():
        torch.manual_seed(30)
        return T5Encoder().eval()


inputs = {"input_ids": torch.randint(1, 73, (3, 17), generator=torch.Generator().manual_seed(3)), "attention_mask": torch.ones(3, 17, dtype=torch.long)}
inputs["attention_mask"][0, 12:] = 0
# also: AS202
expect = {"padding": "attention_mask keep"}
