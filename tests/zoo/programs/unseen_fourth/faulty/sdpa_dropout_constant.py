"""Tabular transformer (feature tokens) using fused attention."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TabBlock(nn.Module):
    def __init__(self, d, h, attn_drop):
        super().__init__()
        self.h, self.attn_drop = h, attn_drop
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_drop)  # fault: AS701
        x = x + self.o(a.transpose(1, 2).reshape(b, n, d))
        return x + self.ff(self.n2(x))


class FTTransformer(nn.Module):
    def __init__(self, n_num=8, d=32, h=4, depth=2):
        super().__init__()
        self.w = nn.Parameter(torch.randn(n_num, d) * .3)
        self.b = nn.Parameter(torch.randn(n_num, d) * .3)
        self.cls = nn.Parameter(torch.randn(1, 1, d) * .3)
        self.blocks = nn.ModuleList([TabBlock(d, h, 0.15) for _ in range(depth)])
        self.head = nn.Linear(d, 1)

    def forward(self, x_num):
        x = x_num[..., None] * self.w + self.b
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1)
        for blk in self.blocks:
            x = blk(x)
        return self.head(x[:, 0])


torch.manual_seed(46)
model = FTTransformer().eval()
inputs = torch.randn(5, 8, generator=torch.Generator().manual_seed(46))
# note: AS501
