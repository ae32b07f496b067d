"""CaiT block: talking heads before and after the softmax, layer scale, class attention."""
import torch
import torch.nn as nn


class Attention_talking_head(nn.Module):
    def __init__(self, dim, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=True)
        self.proj = nn.Linear(dim, dim)
        self.proj_l = nn.Linear(num_heads, num_heads)
        self.proj_w = nn.Linear(num_heads, num_heads)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = self.proj_l(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        attn = attn.softmax(dim=-1)
        attn = self.proj_w(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class ClassAttn(nn.Module):
    def __init__(self, dim, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.q, self.k, self.v, self.proj = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        B, N, C = x.shape
        q = self.q(x[:, 0]).unsqueeze(1).reshape(B, 1, self.num_heads, -1).permute(0, 2, 1, 3) * self.scale
        k = self.k(x).reshape(B, N, self.num_heads, -1).permute(0, 2, 1, 3)
        v = self.v(x).reshape(B, N, self.num_heads, -1).permute(0, 2, 1, 3)
        cls = ((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).reshape(B, 1, C)
        return self.proj(cls)


class CaiT(nn.Module):
    def __init__(self, dim=32, n=12, classes=5):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, 5, 5)
        self.pos_embed = nn.Parameter(torch.randn(1, n, dim) * .02)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * .02)
        self.norm1, self.norm2, self.norm = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn, self.cattn = Attention_talking_head(dim), ClassAttn(dim)
        self.gamma = nn.Parameter(0.1 * torch.ones(dim))
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.embed(img).flatten(2).transpose(1, 2) + self.pos_embed
        x = x + self.gamma * self.attn(self.norm1(x))
        cls = self.cls_token.expand(len(x), -1, -1)
        cls = cls + self.gamma * self.cattn(self.norm2(torch.cat((cls, x), 1)))
        return self.head(self.norm(cls)[:, 0])


def model():
    with torch.random.fork_rng():
        torch.manual_seed(40)
        return CaiT().eval()


inputs = torch.randn(2, 3, 15, 20, generator=torch.Generator().manual_seed(41))
