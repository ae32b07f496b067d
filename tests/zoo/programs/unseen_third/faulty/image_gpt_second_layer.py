"""Image GPT: pixels in raster order, palette of 16 colours, alternating row and full attention."""
import torch
from torch import nn
from torch.nn import functional as F


class Pixels(nn.Module):
    def __init__(self, d, h, row=None):
        super().__init__()
        self.h, self.row = h, row
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.h, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if self.row:
            i = torch.arange(n)
            same_row = i[:, None] // self.row == i[None] // self.row  # fault: AS201
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=same_row)  # fault: AS201
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class IGPT(nn.Module):
    def __init__(self, colours=16, d=32, side=6):
        super().__init__()
        self.sos = nn.Parameter(torch.randn(d))
        self.emb, self.pos = nn.Embedding(colours, d), nn.Parameter(0.1 * torch.randn(side * side, d))
        self.layers = nn.ModuleList([Pixels(d, 4, None), Pixels(d, 4, side), Pixels(d, 4, None)])
        self.norm = nn.ModuleList([nn.LayerNorm(d) for _ in self.layers])
        self.head = nn.Linear(d, colours)

    def forward(self, pixels):
        x = self.emb(pixels)
        x = torch.cat([self.sos.expand(x.size(0), 1, -1), x[:, :-1]], 1) + self.pos
        for l, n in zip(self.layers, self.norm):
            x = x + l(n(x))
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(36)
    model = IGPT().eval()
inputs = {"pixels": torch.randint(0, 16, (2, 36), generator=torch.Generator().manual_seed(36))}
