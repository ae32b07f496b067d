"""Dot-product attention with per-sample lengths, after jax.nn, https://github.com/jax-ml/jax/issues/23349."""

import torch
from torch import nn


def _padding_mask(t, s, q_lengths, kv_lengths):
    q_mask = torch.arange(t)[None, :, None] < q_lengths[:, None, None]
    kv_mask = torch.arange(s)[None, None, :] < kv_lengths[:, None, None]
    return (q_mask & kv_mask)[:, None]


def dot_product_attention(
    query, key, value, *, mask=None, scale=None, query_seq_lengths=None, key_value_seq_lengths=None
):
    """Attention over (B, T, N, H) tensors; positions past the given lengths are left out."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    logits = torch.einsum("BTNH,BSNH->BNTS", query, key) * scale
    combined = torch.ones_like(logits, dtype=torch.bool)
    if mask is not None:
        combined = combined & mask
    if query_seq_lengths is not None:  # fault: AS202|AS208
        combined = combined & _padding_mask(
            logits.shape[2], logits.shape[3], query_seq_lengths, key_value_seq_lengths
        )
    logits = torch.where(combined, logits, torch.finfo(logits.dtype).min)
    probs = logits.softmax(dim=-1)
    return torch.einsum("BNTS,BSNH->BTNH", probs, value)


class SetReader(nn.Module):
    def __init__(self, width=30, heads=3):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, points, valid_lens):
        b, n, w = points.shape
        q, k, v = self.qkv(points).view(b, n, 3, self.heads, w // self.heads).unbind(2)
        ctx = dot_product_attention(q, k, v, key_value_seq_lengths=valid_lens)  # fault: AS202|AS208
        return self.out(ctx.reshape(b, n, w))


with torch.random.fork_rng():
    torch.manual_seed(42)
    model = SetReader().eval()
    inputs = {
        "points": torch.randn(4, 13, 30),
        "valid_lens": torch.tensor([5, 13, 9, 7]),
    }
expect = {"padding": "valid_lens lengths", "positions": False}
