"""Decoder on flex_attention with a score function for distance and a causal block mask."""
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def earlier(b, h, q_idx, kv_idx):
    return kv_idx >= q_idx


def distance(score, b, h, q_idx, kv_idx):
    return score - 0.1 * (q_idx - kv_idx)


class FlexLayer(nn.Module):
    def __init__(self, d=40, h=5):
        super().__init__()
        self.h = h
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        mask = create_block_mask(earlier, B=None, H=None, Q_LEN=n, KV_LEN=n, device="cpu")
        y = flex_attention(q, k, v, score_mod=distance, block_mask=mask)  # fault: AS201|AS205
        return self.o(y.transpose(1, 2).reshape(b, n, d))


torch.manual_seed(83)
model = FlexLayer().eval().requires_grad_(False)
inputs = torch.randn(2, 14, 40)
expect = {"causal": True}
