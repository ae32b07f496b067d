"""Sliding-window decoder with a cache that is cut to the window."""
import torch
import torch.nn as nn
import torch.nn.functional as F

WINDOW = 4


class WindowAttn(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h, self.qkv, self.o = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, past=None):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        s = k.size(2)
        dist = torch.arange(s - n, s)[:, None] - torch.arange(s)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=(dist >= 0) & (dist < WINDOW))
        return self.o(y.transpose(1, 2).flatten(2)), (k[:, :, -(WINDOW - 1) :], v[:, :, -(WINDOW - 1) :])


class WindowLM(nn.Module):
    def __init__(self, vocab=54, d=32):
        super().__init__()
        self.e, self.a, self.n, self.head = nn.Embedding(vocab, d), WindowAttn(d), nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids, past=None):
        x = self.e(ids)
        y, past = self.a(self.n(x), past)
        return self.head(x + y), past


torch.manual_seed(0)
model = WindowLM().eval()
inputs = {"ids": torch.randint(0, 54, (2, 11), generator=torch.Generator().manual_seed(0))}
expect = {"causal": True, "window": 4, "cache": "past"}
