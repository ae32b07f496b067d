# A diffusion block as it starts: gates of adaLN-zero are zero, padding of the patches is masked.
import torch
from torch import nn


class DiTBlock(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(width, elementwise_affine=False)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        nn.init.zeros_(self.ada[1].weight)
        nn.init.zeros_(self.ada[1].bias)

    def forward(self, x, t, pad_mask):
        s1, b1, g1, s2, b2, g2 = self.ada(t)[:, None].chunk(6, -1)
        h = self.norm1(x) * (1 + s1) + b1
        x = x + g1 * self.attn(h, h, h, key_padding_mask=pad_mask, need_weights=False)[0]
        return x + g2 * self.mlp(self.norm2(x) * (1 + s2) + b2)


torch.manual_seed(0)
model = DiTBlock().eval()
inputs = {
    "x": torch.randn(3, 8, 24),
    "t": torch.randn(3, 24),
    "pad_mask": torch.arange(8)[None] >= torch.tensor([8, 5, 6])[:, None],
}
expect = {"padding": "pad_mask drop"}
