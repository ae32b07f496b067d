"""GPT-J block: attention and MLP in parallel on one norm, rotary on the first part of each head."""
import torch
import torch.nn as nn


def fixed_pos_embedding(n, dim):
    inv = 1.0 / (10000 ** (torch.arange(0, dim, 2) / dim))
    s = torch.outer(torch.arange(n).float(), inv)
    return s.sin().repeat_interleave(2, -1)[:, None], s.cos().repeat_interleave(2, -1)[:, None]


def rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


class ParallelBlock(nn.Module):
    def __init__(self, d=80, h=5, rotary_dim=8):
        super().__init__()
        self.h, self.hd, self.rd = h, d // h, rotary_dim
        self.ln_1 = nn.LayerNorm(d)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def rot(self, x, sin, cos):
        a, b = x[..., : self.rd], x[..., self.rd:]
        return torch.cat([a * cos + rotate_every_two(a) * sin, b], dim=-1)

    def forward(self, x):
        r = x
        x = self.ln_1(x)
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, self.h, self.hd) for p in (self.q_proj, self.k_proj, self.v_proj))
        sin, cos = fixed_pos_embedding(t, self.rd)
        q, k = (self.rot(y, sin, cos).permute(0, 2, 1, 3) for y in (q, k))
        w = q.float() @ k.float().transpose(-1, -2) / self.hd ** 0.5
        w = torch.where(torch.ones(t, t).tril().bool(), w, torch.finfo(w.dtype).min).softmax(-1)
        a = (w @ v.permute(0, 2, 1, 3)).permute(0, 2, 1, 3).reshape(b, t, d)
        return self.out_proj(a) + self.mlp(x) + r


with torch.random.fork_rng():
    torch.manual_seed(8)
    model = nn.Sequential(ParallelBlock(), ParallelBlock()).eval()
inputs = torch.randn(2, 13, 80, generator=torch.Generator().manual_seed(8))
expect = dict(causal=True)
