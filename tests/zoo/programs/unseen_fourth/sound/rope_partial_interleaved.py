"""GPT-J style partial rotary on the first half of each head, parallel block."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


class JBlock(nn.Module):
    def __init__(self, d=32, h=2, rot=8):
        super().__init__()
        self.h, self.rot, self.ln = h, rot, nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        f = torch.outer(torch.arange(64.), 10000 ** (-torch.arange(0, rot, 2) / rot)).repeat_interleave(2, -1)
        self.register_buffer("sin", f.sin()[None, :, None], persistent=False)
        self.register_buffer("cos", f.cos()[None, :, None], persistent=False)

    def turn(self, x):
        t = x.size(1)
        r, p = x[..., :self.rot], x[..., self.rot:]
        return torch.cat([r * self.cos[:, :t] + rotate_every_two(r) * self.sin[:, :t], p], -1)

    def forward(self, x):
        y = self.ln(x)
        b, t, d = y.shape
        q, k, v = (f(y).view(b, t, self.h, -1) for f in (self.q, self.k, self.v))
        a = F.scaled_dot_product_attention(self.turn(q).transpose(1, 2), self.turn(k).transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return x + self.o(a.transpose(1, 2).reshape(b, t, d)) + self.mlp(y)


class MiniJ(nn.Module):
    def __init__(self, vocab=69):
        super().__init__()
        self.wte = nn.Embedding(vocab, 32)
        self.h = nn.Sequential(JBlock(), JBlock())
        self.head = nn.Linear(32, vocab)

    def forward(self, input_ids):
        return self.head(self.h(self.wte(input_ids)))


def model():
    torch.manual_seed(10)
    return MiniJ().eval()
