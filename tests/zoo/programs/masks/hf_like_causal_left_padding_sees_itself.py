"""Batched prompts, padded on the left, through a small causal decoder with rotary positions."""

import torch
import torch.nn as nn


class Cfg:
    d = 32
    heads = 4
    layers = 2
    vocab = 57


def rope(x, pos):
    half = x.shape[-1] // 2
    inv = 10000.0 ** (-torch.arange(half) / half)
    ang = pos[:, None, :, None].float() * inv
    cos, sin = ang.cos(), ang.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class DecoderAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h = c.heads
        self.q_proj = nn.Linear(c.d, c.d, bias=False)
        self.k_proj = nn.Linear(c.d, c.d, bias=False)
        self.v_proj = nn.Linear(c.d, c.d, bias=False)
        self.o_proj = nn.Linear(c.d, c.d, bias=False)

    def forward(self, x, mask, pos):
        b, t, c = x.shape
        q, k, v = (p(x).view(b, t, self.h, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rope(q, pos), rope(k, pos)
        scores = q @ k.mT / (c // self.h) ** 0.5 + mask
        probs = scores.softmax(-1)
        return self.o_proj((probs @ v).transpose(1, 2).reshape(b, t, c))


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c.vocab, c.d)
        self.attn = nn.ModuleList(DecoderAttention(c) for _ in range(c.layers))
        self.norm = nn.ModuleList(nn.LayerNorm(c.d) for _ in range(c.layers + 1))
        self.head = nn.Linear(c.d, c.vocab, bias=False)

    def prepare_mask(self, attention_mask):
        t = attention_mask.shape[1]
        keep = torch.ones(t, t, dtype=torch.bool).tril()[None] & attention_mask[:, None, :].bool()
        keep = keep | torch.eye(t, dtype=torch.bool)
        mask = torch.zeros(keep.shape)
        mask[~keep] = float("-inf")
        return mask[:, None]

    def forward(self, input_ids, attention_mask):
        pos = (attention_mask.cumsum(1) - 1).clamp(min=0)
        mask = self.prepare_mask(attention_mask)
        x = self.embed(input_ids)
        for attn, norm in zip(self.attn, self.norm):
            x = x + attn(norm(x), mask, pos)
        return self.head(self.norm[-1](x))


with torch.random.fork_rng():
    torch.manual_seed(1)
    model = Decoder(Cfg()).eval()

_mask = (torch.arange(9)[None] >= torch.tensor([[0], [4], [2]])).long()
inputs = {
    "input_ids": torch.randint(1, 57, (3, 9), generator=torch.Generator().manual_seed(1)) * _mask,
    "attention_mask": _mask,
}
expect = {"causal": True, "padding": "attention_mask keep"}
