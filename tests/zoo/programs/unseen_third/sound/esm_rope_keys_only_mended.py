"""RNA language model with rotary embedding applied by a helper on a tuple."""
import torch
import torch.nn as nn


class RoPE(nn.Module):
    def __init__(self, head_dim, max_len=128, base=10000):
        super().__init__()
        theta = 1.0 / base ** (torch.arange(0, head_dim, 2)[: head_dim // 2].float() / head_dim)
        idx = torch.arange(max_len).float()
        ang = torch.einsum("i,j->ij", idx, theta)
        self.register_buffer("cache", torch.stack([ang.cos(), ang.sin()], -1), persistent=False)

    def forward(self, x):  # b s h d
        c = self.cache[: x.size(1)].view(1, x.size(1), 1, -1, 2)
        xs = x.float().reshape(*x.shape[:-1], -1, 2)
        out = torch.stack([xs[..., 0] * c[..., 0] - xs[..., 1] * c[..., 1], xs[..., 1] * c[..., 0] + xs[..., 0] * c[..., 1]], -1)
        return out.flatten(3).type_as(x)


class RNAAttention(nn.Module):
    def __init__(self, d=48, h=4):
        super().__init__()
        self.h, self.rope = h, RoPE(d // h)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (w(x).view(b, s, self.h, -1) for w in (self.wq, self.wk, self.wv))
        q, k = (self.rope(q), self.rope(k))
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        a = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / (d // self.h) ** 0.5, -1)
        return self.wo(torch.matmul(a, v).transpose(1, 2).reshape(b, s, d))


class RNALM(nn.Module):
    def __init__(self, vocab=9, d=48):
        super().__init__()
        self.emb, self.att, self.norm, self.head = nn.Embedding(vocab, d), nn.ModuleList([RNAAttention(d) for _ in range(2)]), nn.ModuleList([nn.LayerNorm(d) for _ in range(2)]), nn.Linear(d, vocab)

    def forward(self, seq):
        x = self.emb(seq)
        for a, n in zip(self.att, self.norm):
            x = x + a(n(x))
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(128)
    model = RNALM().eval()
inputs = (torch.randint(0, 9, (2, 22), generator=torch.Generator().manual_seed(128)),)
