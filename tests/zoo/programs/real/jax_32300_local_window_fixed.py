"""Local attention through a jax.nn-like function, https://github.com/jax-ml/jax/issues/32300."""

import torch
from torch import nn


def _apply_masks(logits, mask, is_causal, local_window_size):
    if mask is None and not is_causal and local_window_size is None:
        return logits
    t, s = logits.shape[-2:]
    combined = torch.ones(t, s, dtype=torch.bool)
    if mask is not None:
        combined = combined & mask
    offset = torch.arange(t)[:, None] - torch.arange(s)[None, :]
    if is_causal:
        combined = combined & (offset >= 0)
    if local_window_size is not None:
        left, right = local_window_size
        combined = combined & (offset <= left) & (offset >= -right)
    return torch.where(combined, logits, -0.7 * torch.finfo(logits.dtype).max)


def dot_product_attention(query, key, value, mask=None, *, is_causal=False, local_window_size=None):
    """(batch, length, heads, width) tensors; local_window_size is (left, right) of the query itself."""
    logits = torch.einsum("btnh,bsnh->bnts", query, key) / query.shape[-1] ** 0.5
    probs = torch.softmax(_apply_masks(logits, mask, is_causal, local_window_size), dim=-1)
    return torch.einsum("bnts,bsnh->btnh", probs, value)


class LocalLayer(nn.Module):
    def __init__(self, width, heads, left):
        super().__init__()
        self.heads, self.left = heads, left
        self.norm = nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.o = nn.Linear(width, width)

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (f(y).unflatten(-1, (self.heads, -1)) for f in (self.q, self.k, self.v))
        y = dot_product_attention(q, k, v, local_window_size=(self.left, 0))
        return x + self.o(y.flatten(2))


class SignalModel(nn.Module):
    def __init__(self, channels=4, width=32, heads=4, left=3, depth=2, max_len=40):
        super().__init__()
        self.inp = nn.Linear(channels, width)
        self.pos = nn.Parameter(torch.randn(max_len, width) * 0.1)
        self.layers = nn.Sequential(*[LocalLayer(width, heads, left) for _ in range(depth)])
        self.out = nn.Linear(width, channels)

    def forward(self, signal):
        return self.out(self.layers(self.inp(signal) + self.pos[: signal.shape[1]]))


with torch.random.fork_rng():
    torch.manual_seed(32300)
    model = SignalModel().eval()
    inputs = torch.randn(2, 13, 4)
expect = {"causal": True, "window": 4}
