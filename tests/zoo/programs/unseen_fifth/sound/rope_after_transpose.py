"""Decoder LM with complex rotary embeddings and a tied head, written for a small Spanish corpus."""
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa


def rope_table(n, d, base=10_000.0):
    w = base ** (-torch.arange(0, d, 2) / d)
    ang = torch.arange(n)[:, None] * w[None]
    return torch.polar(torch.ones_like(ang), ang)


def rotate(x, table):
    """x: (..., n, d), rotated along the second to last axis"""
    n = x.shape[-2]
    xc = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(xc * table[:n]).flatten(-2).to(x.dtype)


class RopeSelfAttention(nn.Module):
    def __init__(self, ancho, cabezas):
        super().__init__()
        self.cabezas = cabezas
        self.wq, self.wk, self.wv, self.wo = [nn.Linear(ancho, ancho, bias=False) for _ in range(4)]

    def forward(self, x, table):
        b, n, c = x.shape
        q = self.wq(x).view(b, n, self.cabezas, c // self.cabezas)
        k = self.wk(x).view(b, n, self.cabezas, c // self.cabezas)
        v = self.wv(x).view(b, n, self.cabezas, c // self.cabezas)
        y = sdpa(rotate(q.transpose(1, 2), table), rotate(k.transpose(1, 2), table), v.transpose(1, 2), is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, n, c))


class ModeloEs(nn.Module):
    def __init__(self, vocab=118, ancho=64, cabezas=8, capas=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, ancho)
        self.capas = nn.ModuleList(RopeSelfAttention(ancho, cabezas) for _ in range(capas))
        self.normas = nn.ModuleList(nn.RMSNorm(ancho) for _ in range(capas + 1))
        self.register_buffer("tabla", rope_table(256, ancho // cabezas), persistent=False)

    def forward(self, ids):
        x = self.tok(ids)
        for norma, capa in zip(self.normas, self.capas):
            x = x + capa(norma(x), self.tabla)
        return self.normas[-1](x) @ self.tok.weight.t()


with torch.random.fork_rng():
    torch.manual_seed(5031)
    model = ModeloEs().eval()
inputs = (torch.randint(0, 118, (2, 14), generator=torch.Generator().manual_seed(5)),)
