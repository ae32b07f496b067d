"""StreamingLLM mask: first tokens stay visible, then a window."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class StreamingLayer(nn.Module):
    def __init__(self, d=32, h=4, sinks=2, window=4):
        super().__init__()
        self.h, self.n_sink, self.window = h, sinks, window
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        i, j = torch.arange(n)[:, None], torch.arange(n)
        m = (j <= i) & ((i - j < self.window) | (j < self.n_sink))
        return self.o(F.scaled_dot_product_attention(q, k, v, m).transpose(1, 2).flatten(2))


torch.manual_seed(0)
model = StreamingLayer().eval()
inputs = torch.randn(2, 13, 32, generator=torch.Generator().manual_seed(0))
