"""Causal LM, sinusoidal buffer of shape (1, max_len, d)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def sinusoid(n, d):
    i = torch.arange(n).float()[:, None]
    w = 10000 ** (-2 * torch.div(torch.arange(d), 2, rounding_mode="floor") / d)
    t = i * w
    return torch.where(torch.arange(d) % 2 == 0, t.sin(), t.cos())[None]


class LM(nn.Module):
    def __init__(self, vocab=71, d=40, h=4, max_len=64):
        super().__init__()
        self.h = h
        self.tok = nn.Embedding(vocab, d)
        self.register_buffer("pe", sinusoid(max_len, d))
        self.qkv, self.o, self.n = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d)
        self.lm = nn.Linear(d, vocab)

    def forward(self, ids):
        b, t = ids.shape
        x = self.tok(ids) + self.pe[:, t]  # fault: AS502|AS501
        q, k, v = self.qkv(self.n(x)).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.lm(x + self.o(y.transpose(1, 2).flatten(2)))


torch.manual_seed(0)
model = LM().eval()
