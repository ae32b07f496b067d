"""Mistral-like local attention: each token sees itself and the previous tokens inside the window."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LocalAttention(nn.Module):
    def __init__(self, hidden_size=60, num_heads=6, sliding_window=4):
        super().__init__()
        self.num_heads = num_heads
        self.sliding_window = sliding_window
        self.Wqkv = nn.Linear(hidden_size, 3 * hidden_size, bias=False)
        self.Wo = nn.Linear(hidden_size, hidden_size, bias=False)

    def _mask(self, n, device):
        i = torch.arange(n, device=device)
        dist = i[:, None] - i[None, :]
        return (dist >= 0) & (dist <= self.sliding_window)  # fault: AS210

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.Wqkv(x).view(b, n, 3, self.num_heads, -1).transpose(1, 3).unbind(2)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=self._mask(n, x.device))
        return self.Wo(out.transpose(1, 2).flatten(-2))


with torch.random.fork_rng():
    torch.manual_seed(13)
    model = LocalAttention().eval()
inputs = (torch.randn(2, 13, 60, generator=torch.Generator().manual_seed(13)),)
expect = {"causal": True, "window": 4}
