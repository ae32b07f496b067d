"""Small ViT for 32x32 pictures."""
import torch
import torch.nn as nn


class MSA(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads, self.hd = n_heads, dim // n_heads
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q = self.q(x).view(b, self.n_heads, n, self.hd)  # fault: AS103
        k = self.k(x).view(b, self.n_heads, n, self.hd)  # fault: AS103
        v = self.v(x).view(b, self.n_heads, n, self.hd)  # fault: AS103
        att = torch.softmax(q @ k.mT / self.hd ** .5, -1)
        return self.o((att @ v).transpose(1, 2).reshape(b, n, d))


class ViT(nn.Module):
    def __init__(self, dim=40, depth=2, heads=4, patch=8, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * .02)
        self.pos = nn.Parameter(torch.randn(1, 17, dim) * .02)
        self.blocks = nn.ModuleList([nn.ModuleDict(dict(n=nn.LayerNorm(dim), a=MSA(dim, heads), m=nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 80), nn.GELU(), nn.Linear(80, dim)))) for _ in range(depth)])
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1) + self.pos
        for b in self.blocks:
            x = x + b["a"](b["n"](x))
            x = x + b["m"](x)
        return self.head(x[:, 0])


def model():
    torch.manual_seed(0)
    return ViT().eval()


inputs = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(2))
