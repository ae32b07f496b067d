"""Image prefix language model: picture tokens see each other, text is causal."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PrefixVLM(nn.Module):
    def __init__(self, vocab=70, d=32, h=4, n=2, prefix=9):
        super().__init__()
        self.prefix, self.h = prefix, h
        self.vis, self.txt = nn.Conv2d(3, d, 4, 4), nn.Embedding(vocab, d)
        self.pos = nn.Embedding(64, d)
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(n))
        self.o = nn.ModuleList(nn.Linear(d, d) for _ in range(n))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.head = nn.Linear(d, vocab)

    def forward(self, image, text):
        x = torch.cat([self.vis(image).flatten(2).mT, self.txt(text)], 1)
        B, T, D = x.shape
        x = x + self.pos.weight[:T]
        i = torch.arange(T)
        allow = (i[None] <= i[:, None]) | (i[None] < self.prefix)
        for ln, qkv, o in zip(self.ln, self.qkv, self.o):
            q, k, v = qkv(ln(x)).view(B, T, 3, self.h, -1).permute(2, 0, 3, 1, 4)
            x = x + o(F.scaled_dot_product_attention(q, k, v, attn_mask=allow).transpose(1, 2).flatten(2))
        return self.head(x[:, self.prefix:])


def model():
    torch.manual_seed(7)
    return PrefixVLM().eval()


_g = torch.Generator().manual_seed(7)
inputs = {"image": torch.randn(2, 3, 12, 12, generator=_g), "text": torch.randint(0, 70, (2, 8), generator=_g)}
