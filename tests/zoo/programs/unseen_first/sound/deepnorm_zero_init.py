"""DeepNorm-style post-norm encoder with scaled residual and zero-initialised output projection."""
import torch
from torch import nn


class DeepBlock(nn.Module):
    def __init__(self, d, h, alpha):
        super().__init__()
        self.alpha = alpha
        self.attn = nn.MultiheadAttention(d, h, batch_first=True)
        nn.init.zeros_(self.attn.out_proj.weight)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        a = self.attn(x, x, x, need_weights=False)[0]
        x = self.ln1(self.alpha * x + a)
        return self.ln2(self.alpha * x + self.ff(x))


class DeepEncoder(nn.Module):
    def __init__(self, d=26, h=2, depth=3):
        super().__init__()
        self.emb, self.pos = nn.Embedding(48, d), nn.Embedding(32, d)
        self.blocks = nn.ModuleList(DeepBlock(d, h, (2 * depth) ** 0.25) for _ in range(depth))

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return x


torch.manual_seed(1)
model = DeepEncoder().eval()
inputs = torch.randint(48, (3, 14))
