"""CaiT: talking-heads self-attention on the patches, class attention at the end, layer scale."""
import torch
import torch.nn as nn


class TalkingHeadAttn(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.proj_l, self.proj_w = nn.Linear(heads, heads), nn.Linear(heads, heads)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = self.proj_l(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).softmax(dim=-1)
        attn = self.proj_w(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class ClassAttn(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.proj = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        B, N, C = x.shape
        q = self.q(x[:, 0]).unsqueeze(1).reshape(B, 1, self.heads, -1).permute(0, 2, 1, 3)
        k = self.k(x).reshape(B, N, self.heads, -1).permute(0, 2, 1, 3)
        v = self.v(x).reshape(B, N, self.heads, -1).permute(0, 2, 1, 3)
        a = (q * (C // self.heads) ** -0.5 @ k.transpose(-2, -1)).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(B, 1, C))


class CaiT(nn.Module):
    def __init__(self, d=36, h=4, p=5):
        super().__init__()
        self.patch, self.cls = nn.Conv2d(3, d, p, p), nn.Parameter(torch.randn(1, 1, d) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, 16, d) * 0.02)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.sa, self.ca = TalkingHeadAttn(d, h), ClassAttn(d, h)
        self.g1, self.g2 = nn.Parameter(1e-5 * torch.ones(d)), nn.Parameter(1e-5 * torch.ones(d))
        self.head = nn.Linear(d, 10)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2) + self.pos
        x = x + self.g1 * self.sa(self.n1(x))
        cls = self.cls.expand(x.size(0), -1, -1)
        cls = cls + self.g2 * self.ca(self.n2(torch.cat([cls, x], 1)))
        return self.head(cls[:, 0])


with torch.random.fork_rng():
    torch.manual_seed(10)
    model = CaiT().eval()
inputs = torch.randn(2, 3, 20, 20, generator=torch.Generator().manual_seed(10))
