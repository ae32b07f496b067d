"""Scores several beams per sentence; the encoder's keys are computed once and shared by the beams."""

import torch
import torch.nn.functional as F
from torch import nn


class BeamDecoder(nn.Module):
    def __init__(self, vocab=49, d=32, h=4):
        super().__init__()
        self.h, self.hd = h, d // h
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(20, d)
        self.self_qkv, self.self_out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.cross_q, self.cross_kv, self.cross_out = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab)

    def heads(self, t):
        return t.view(t.shape[0], t.shape[1], self.h, self.hd).transpose(1, 2)

    def merge(self, t):
        return t.transpose(1, 2).flatten(2)

    def forward(self, beams, memory):
        b, k, t = beams.shape
        x = self.tok(beams.reshape(b * k, t)) + self.pos.weight[:t]
        q, key, v = (self.heads(z) for z in self.self_qkv(self.ln1(x)).chunk(3, -1))
        x = x + self.self_out(self.merge(F.scaled_dot_product_attention(q, key, v, is_causal=True)))
        ck, cv = (self.heads(z).repeat_interleave(k, dim=0) for z in self.cross_kv(memory).chunk(2, -1))
        x = x + self.cross_out(self.merge(F.scaled_dot_product_attention(self.heads(self.cross_q(self.ln2(x))), ck, cv)))
        logp = self.head(self.ln3(x)).log_softmax(-1).view(b, k, t, -1)
        return logp


with torch.random.fork_rng():
    torch.manual_seed(57)
    model = BeamDecoder().eval()

_g = torch.Generator().manual_seed(58)
inputs = {"beams": torch.randint(0, 49, (2, 5, 7), generator=_g), "memory": torch.randn(2, 9, 32, generator=_g)}
