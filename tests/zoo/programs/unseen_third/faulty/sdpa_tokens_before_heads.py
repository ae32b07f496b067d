"""Encoder block ported from flash-attn to plain torch."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FlashEncoderBlock(nn.Module):
    def __init__(self, d=48, nheads=6):
        super().__init__()
        self.nheads = nheads
        self.norm, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.Wqkv, self.Wo = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        b, s, d = x.shape
        # (b, s, three, heads, head_dim)
        qkv = self.Wqkv(self.norm(x)).view(b, s, 3, self.nheads, d // self.nheads)
        q, k, v = qkv.unbind(dim=2)
        # out = flash_attn_func(q, k, v)
        out = F.scaled_dot_product_attention(q, k, v)  # fault: AS106
        x = x + self.Wo(out.reshape(b, s, d))
        return x + self.ff(self.norm2(x))


torch.manual_seed(0)
model = FlashEncoderBlock().eval()
