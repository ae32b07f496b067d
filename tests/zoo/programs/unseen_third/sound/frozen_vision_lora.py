"""Frozen vision backbone with LoRA on query and value, B starts at zero, as fine-tuning begins."""
import torch
import torch.nn as nn


class LoRALinear(nn.Module):
    def __init__(self, base, r=4, alpha=8):
        super().__init__()
        self.base, self.scaling = base, alpha / r
        for p in base.parameters():
            p.requires_grad_(False)
        self.lora_A, self.lora_B = nn.Parameter(torch.randn(r, base.in_features) * 0.05), nn.Parameter(torch.zeros(base.out_features, r))

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling


class Attn(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))


class Backbone(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.patch, self.pos = nn.Linear(27, d), nn.Parameter(torch.randn(1, 20, d) * 0.1)
        self.layers, self.norms, self.head = nn.ModuleList([Attn(d) for _ in range(2)]), nn.ModuleList([nn.LayerNorm(d) for _ in range(2)]), nn.Linear(d, 3)

    def forward(self, x):
        x = self.patch(x) + self.pos[:, : x.size(1)]
        for l, n in zip(self.layers, self.norms):
            x = x + l(n(x))
        return self.head(x.mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(46)
        net = Backbone().requires_grad_(False)
        net.head.requires_grad_(True)
        for l in net.layers:
            l.q, l.v = LoRALinear(l.q), LoRALinear(l.v)
        return net.eval()


inputs = torch.randn(2, 16, 27, generator=torch.Generator().manual_seed(46))
