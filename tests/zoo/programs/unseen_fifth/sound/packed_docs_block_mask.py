"""Continued pre-training on packed documents, positions restart per document."""
from dataclasses import dataclass, field
import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class PackCfg:
    vocab: int = 140
    width: int = 48
    heads: int = 4
    depth: int = 2
    ctx: int = 64
    extras: dict = field(default_factory=dict)


def restart_positions(doc_ids):
    idx = torch.arange(doc_ids.shape[1], device=doc_ids.device).expand_as(doc_ids)
    new = torch.ones_like(doc_ids, dtype=torch.bool)
    new[:, 1:] = doc_ids[:, 1:] != doc_ids[:, :-1]
    start = torch.where(new, idx, 0).cummax(dim=1).values
    return idx - start


class PackBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.norm = nn.RMSNorm(c.width)
        self.qkv = nn.Linear(c.width, 3 * c.width, bias=False)
        self.o = nn.Linear(c.width, c.width, bias=False)
        self.mlp = nn.Sequential(nn.RMSNorm(c.width), nn.Linear(c.width, 96), nn.GELU(), nn.Linear(96, c.width))

    def forward(self, x, same):
        B, T, D = x.shape
        q, k, v = self.qkv(self.norm(x)).view(B, T, 3, self.c.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=same)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, D))
        return x + self.mlp(x)


class PackedLM(nn.Module):
    def __init__(self, c=None):
        super().__init__()
        c = c or PackCfg()
        self.tok, self.pos = nn.Embedding(c.vocab, c.width), nn.Embedding(c.ctx, c.width)
        self.blocks = nn.ModuleList(PackBlock(c) for _ in range(c.depth))
        self.out = nn.Linear(c.width, c.vocab, bias=False)
        self.out.weight = self.tok.weight

    def forward(self, tokens, doc_ids):
        x = self.tok(tokens) + self.pos(restart_positions(doc_ids))
        T = tokens.shape[1]
        same = (doc_ids[:, :, None] == doc_ids[:, None, :]).tril()[:, None]
        for b in self.blocks:
            x = b(x, same)
        return self.out(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(9)
        return PackedLM().eval()


inputs = {"tokens": torch.randint(0, 140, (2, 20), generator=torch.Generator().manual_seed(9)),
          "doc_ids": torch.tensor([[0] * 6 + [1] * 9 + [2] * 5, [0] * 11 + [1] * 9])}
expect = {"causal": True, "documents": "doc_ids"}
