"""Character language model with its vocabulary and text, rotary halves, trained from scratch."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. "
CHARS = sorted(set(TEXT))
STOI = {c: i for i, c in enumerate(CHARS)}


def encode(s):
    return torch.tensor([STOI[c] for c in s])


class Rotary(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)))

    def forward(self, x):  # (B, T, H, D)
        t = torch.arange(x.shape[1], device=x.device).type_as(self.inv_freq)
        freqs = torch.outer(t, self.inv_freq)
        cos, sin = freqs.cos()[None, :, None, :], freqs.sin()[None, :, None, :]
        d = x.shape[3] // 2
        x1, x2 = x[..., :d], x[..., d:]
        return torch.cat([x1 * cos + x2 * sin, -x1 * sin + x2 * cos], 3)


class CharAttention(nn.Module):
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head, self.head_dim = n_head, n_embd // n_head
        self.c_q = nn.Linear(n_embd, n_embd, bias=False)
        self.c_k = nn.Linear(n_embd, n_embd, bias=False)
        self.c_v = nn.Linear(n_embd, n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.c_proj.weight.data.zero_()
        self.rotary = Rotary(self.head_dim)

    def forward(self, x):
        B, T, C = x.size()
        q = self.c_q(x).view(B, T, self.n_head, self.head_dim)
        k = self.c_k(x).view(B, T, self.n_head, self.head_dim)
        v = self.c_v(x).view(B, T, self.n_head, self.head_dim)
        q, k = self.rotary(q), self.rotary(k)
        att = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(self.head_dim)
        att = att.masked_fill(torch.ones(T, T, device=x.device).tril() == 0, float("-inf"))
        y = torch.einsum("bhij,bjhd->bihd", F.softmax(att, dim=-1), v)
        return self.c_proj(y.reshape(B, T, C))


class CharLM(nn.Module):
    def __init__(self, n_embd=48, n_head=4, n_layer=3):
        super().__init__()
        self.wte = nn.Embedding(len(CHARS), n_embd)
        self.attn = nn.ModuleList([CharAttention(n_embd, n_head) for _ in range(n_layer)])
        self.mlp = nn.ModuleList(
            [nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.ReLU(), nn.Linear(4 * n_embd, n_embd)) for _ in range(n_layer)]
        )
        self.lm_head = nn.Linear(n_embd, len(CHARS), bias=False)

    def forward(self, idx, targets=None):
        x = F.rms_norm(self.wte(idx), (self.wte.embedding_dim,))
        for attn, mlp in zip(self.attn, self.mlp):
            x = x + attn(F.rms_norm(x, (x.size(-1),)))
            x = x + mlp(F.rms_norm(x, (x.size(-1),)))
        logits = self.lm_head(F.rms_norm(x, (x.size(-1),)))
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


with torch.random.fork_rng():
    torch.manual_seed(2)
    model = CharLM().eval()

_data = encode(TEXT)
inputs = {
    "idx": torch.stack([_data[i : i + 18] for i in (0, 20, 41)]),
    "targets": torch.stack([_data[i + 1 : i + 19] for i in (0, 20, 41)]),
}
expect = {"causal": True}
