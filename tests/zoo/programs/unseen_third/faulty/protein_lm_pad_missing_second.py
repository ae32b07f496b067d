"""Antibody language model: heavy and light chain, padded batch, SDPA attention."""
import torch
import torch.nn as nn
import torch.nn.functional as F

AA = "ACDEFGHIKLMNPQRSTVWY"
PAD = len(AA)


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, keep=None):
        B, L, D = x.shape
        q, k, v = (f(x).view(B, L, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        m = None if keep is None else keep[:, None, None, :].expand(B, 1, L, L)
        return self.o(F.scaled_dot_product_attention(q, k, v, m).transpose(1, 2).reshape(B, L, D))  # fault: AS202


class AntibodyLM(nn.Module):
    def __init__(self, d=32, h=4, layers=3):
        super().__init__()
        self.aa = nn.Embedding(len(AA) + 1, d, padding_idx=PAD)
        self.pos = nn.Embedding(40, d)
        self.attns = nn.ModuleList([Attn(d, h) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(layers)])
        self.out = nn.Linear(d, len(AA))

    def forward(self, seq):
        keep = seq.ne(PAD)
        x = self.aa(seq) + self.pos.weight[: seq.size(1)]
        x = x + self.attns[0](self.norms[0](x), keep)
        for attn, norm in zip(self.attns[1:], self.norms[1:]):
            x = x + attn(norm(x))  # fault: AS202
        return self.out(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(52)
        return AntibodyLM().eval()


def inputs():
    s = torch.randint(0, PAD, (3, 18), generator=torch.Generator().manual_seed(52))
    for r, n in enumerate((18, 11, 14)):
        s[r, n:] = PAD
    return (s,)


expect = {"padding": f"seq pad={PAD}"}
