"""Performer: the softmax kernel by positive random features, two-way."""

import torch
from torch import nn


def orthogonal_features(rows, cols, seed):
    g = torch.Generator().manual_seed(seed)
    blocks = []
    while sum(b.shape[0] for b in blocks) < rows:
        q, _ = torch.linalg.qr(torch.randn(cols, cols, generator=g))
        blocks.append(q.T)
    norms = torch.randn(rows, cols, generator=g).norm(dim=1)
    return norms[:, None] * torch.cat(blocks)[:rows]


def softmax_kernel(x, projection, is_query, eps=1e-4):
    x = x * x.shape[-1] ** -0.25
    dash = torch.einsum("bhnd,md->bhnm", x, projection)
    diag = x.pow(2).sum(-1, keepdim=True) / 2
    peak = dash.amax(dim=-1, keepdim=True) if is_query else dash.amax(dim=(-1, -2), keepdim=True)
    return projection.shape[0] ** -0.5 * (torch.exp(dash - diag - peak.detach()) + eps)


class PerformerAttention(nn.Module):
    def __init__(self, dim=36, heads=3, features=40):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(dim, dim) for _ in range(4))
        self.register_buffer("projection", orthogonal_features(features, dim // heads, 5))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v))
        q, k = softmax_kernel(q, self.projection, True), softmax_kernel(k, self.projection, False)
        d_inv = 1.0 / torch.einsum("bhnm,bhm->bhn", q, k.sum(dim=-2))
        context = torch.einsum("bhnm,bhnd->bhmd", k, v)
        out = torch.einsum("bhmd,bhnm,bhn->bhnd", context, q, d_inv)
        return self.to_out(out.transpose(1, 2).reshape(b, n, d))


class Performer(nn.Module):
    def __init__(self, vocab=30, dim=36, depth=2, max_len=40):
        super().__init__()
        self.token, self.pos = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList(nn.ModuleList([nn.LayerNorm(dim), PerformerAttention(dim)]) for _ in range(depth))
        self.to_logits = nn.Linear(dim, vocab)

    def forward(self, seq):
        x = self.token(seq) + self.pos(torch.arange(seq.shape[1], device=seq.device))
        for norm, attn in self.blocks:
            x = x + attn(norm(x))
        return self.to_logits(x)


with torch.random.fork_rng():
    torch.manual_seed(54)
    model = Performer().eval()

inputs = torch.randint(0, 30, (2, 17), generator=torch.Generator().manual_seed(55))
