"""Return-conditioned policy; short histories are filled up on the left."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.wqkv = nn.Linear(d, 3 * d, bias=False)
        self.wo = nn.Linear(d, d, bias=False)
        self.ff = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x, allowed):
        B, T, d = x.shape
        q, k, v = self.wqkv(self.n1(x)).view(B, T, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        x = x + self.wo(y.transpose(1, 2).reshape(B, T, d))
        return x + self.ff(self.n2(x))


class Policy(nn.Module):
    def __init__(self, obs=5, act=2, d=30, heads=3, depth=2, context=16):
        super().__init__()
        self.inp = nn.Linear(obs + 1, d)
        self.step = nn.Embedding(context, d)
        self.layers = nn.ModuleList([Layer(d, heads) for _ in range(depth)])
        self.head = nn.Linear(d, act)

    def forward(self, observations, rtg, mask):
        B, T, _ = observations.shape
        pos = torch.arange(T, device=mask.device).expand(B, T)  # fault: AS504
        x = self.inp(torch.cat([observations, rtg], -1)) + self.step(pos)  # fault: AS504
        causal = torch.ones(T, T, dtype=torch.bool, device=mask.device).tril()
        allowed = causal & mask.bool()[:, None, None, :] | torch.eye(T, dtype=torch.bool, device=mask.device)
        for layer in self.layers:
            x = layer(x, allowed)
        return torch.tanh(self.head(x))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(71)
        return Policy().eval()


def inputs():
    g = torch.Generator().manual_seed(72)
    mask = torch.ones(3, 9, dtype=torch.long)
    mask[1, :4] = 0
    mask[2, :6] = 0
    return {"observations": torch.randn(3, 9, 5, generator=g), "rtg": torch.rand(3, 9, 1, generator=g), "mask": mask}


expect = {"padding": "mask keep", "causal": True}
