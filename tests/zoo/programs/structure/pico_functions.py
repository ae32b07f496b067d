"""A GPT as a handful of functions over a dictionary of parameters."""

import math

import torch
from torch import nn


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    exp_x = torch.exp(x - torch.amax(x, dim=-1, keepdim=True))
    return exp_x / torch.sum(exp_x, dim=-1, keepdim=True)


def layer_norm(x, g, b, eps=1e-5):
    mean = x.mean(-1, keepdim=True)
    variance = x.var(-1, keepdim=True, unbiased=False)
    return g * (x - mean) / torch.sqrt(variance + eps) + b


def attention(q, k, v, mask):
    return softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask) @ v


def mha(x, w_qkv, w_out, n_head):
    x = x @ w_qkv  # [b, n, e] -> [b, n, 3e]
    qkv_heads = [part.split(part.shape[-1] // n_head, dim=-1) for part in x.chunk(3, dim=-1)]
    causal_mask = (1 - torch.tril(torch.ones(x.shape[1], x.shape[1]))) * -1e10
    out_heads = [attention(q, k, v, causal_mask) for q, k, v in zip(*qkv_heads)]
    x = torch.cat(out_heads, dim=-1)  # n_head * [b, n, e / n_head] -> [b, n, e]
    return x @ w_out


class Pico(nn.Module):
    def __init__(self, vocab=49, n_embd=32, n_head=4, n_layer=2, n_ctx=32):
        super().__init__()
        self.n_head, self.n_layer = n_head, n_layer
        shapes = {"wte": (vocab, n_embd), "wpe": (n_ctx, n_embd)}
        for i in range(n_layer):
            shapes |= {f"qkv{i}": (n_embd, 3 * n_embd), f"out{i}": (n_embd, n_embd)}
            shapes |= {f"fc{i}": (n_embd, 4 * n_embd), f"proj{i}": (4 * n_embd, n_embd)}
        self.params = nn.ParameterDict({n: nn.Parameter(torch.randn(s) / math.sqrt(s[0])) for n, s in shapes.items()})
        self.g = nn.Parameter(torch.ones(2 * n_layer + 1, n_embd))
        self.b = nn.Parameter(torch.zeros(2 * n_layer + 1, n_embd))

    def forward(self, ids):
        p = self.params
        x = p["wte"][ids] + p["wpe"][: ids.shape[1]]
        for i in range(self.n_layer):
            x = x + mha(layer_norm(x, self.g[2 * i], self.b[2 * i]), p[f"qkv{i}"], p[f"out{i}"], self.n_head)
            h = layer_norm(x, self.g[2 * i + 1], self.b[2 * i + 1])
            x = x + gelu(h @ p[f"fc{i}"]) @ p[f"proj{i}"]
        return layer_norm(x, self.g[-1], self.b[-1]) @ p["wte"].T


def model():
    with torch.random.fork_rng():
        torch.manual_seed(340)
        return Pico()


def inputs():
    return {"ids": torch.randint(0, 49, (2, 14), generator=torch.Generator().manual_seed(341))}
