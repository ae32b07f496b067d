"""Image classifier that starts from pre-trained weights where they fit."""

import torch
from torch import nn
import torch.nn.functional as F


class GroupedAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, kv_heads * self.size)
        self.v = nn.Linear(dim, kv_heads * self.size)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(b, n, self.kv_heads, self.size).transpose(1, 2)
        v = self.v(x).view(b, n, self.kv_heads, self.size).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class Classifier(nn.Module):
    def __init__(self, dim=36, heads=6, kv_heads=2, patches=20, classes=4):
        super().__init__()
        self.embed = nn.Linear(15, dim)
        self.pos = nn.Parameter(torch.zeros(1, patches, dim))
        self.norm = nn.LayerNorm(dim)
        self.attn = GroupedAttention(dim, heads, kv_heads)
        self.head = nn.Linear(dim, classes)

    def forward(self, patches):
        x = self.embed(patches) + self.pos
        return self.head((x + self.attn(self.norm(x))).mean(1))


def pretrained():
    gen = torch.Generator().manual_seed(112)
    with torch.random.fork_rng():
        shapes = Classifier(kv_heads=6).state_dict()
    state = {name: 0.25 * torch.randn(value.shape, generator=gen) for name, value in shapes.items()}
    state["norm.weight"] += 1
    return state


def model():
    with torch.random.fork_rng():
        torch.manual_seed(2)
        net = Classifier()
    own = net.state_dict()
    fitting = {k: v for k, v in pretrained().items() if k in own and v.shape == own[k].shape}  # fault: AS905
    net.load_state_dict(fitting, strict=False)  # fault: AS905
    return net.eval()


inputs = torch.randn(3, 20, 15, generator=torch.Generator().manual_seed(112))
