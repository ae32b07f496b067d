"""nn.MultiheadAttention with add_bias_kv and add_zero_attn, sequence first."""
import torch
import torch.nn as nn


class RobustPool(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, 3, add_bias_kv=True, add_zero_attn=True)
        self.ln = nn.LayerNorm(d)

    def forward(self, x, pad):
        x = x.transpose(0, 1)
        y, w = self.attn(x, x, x, key_padding_mask=pad)
        return self.ln(x + y).transpose(0, 1), w


torch.manual_seed(0)
model = RobustPool().eval()
inputs = {"x": torch.randn(3, 7, 24, generator=torch.Generator().manual_seed(0)), "pad": torch.arange(7)[None] >= torch.tensor([7, 4, 6])[:, None]}
expect = {"padding": "pad drop"}
