"""Weather, hour by hour."""

import torch
from torch import nn
from torch.nn import functional as F

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, causal=False):
        q, k, v = (t.unflatten(-1, (2, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2))


class Weather(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.front, self.hour = nn.Linear(3, width), nn.Parameter(torch.randn(48, width) * 0.1)
        self.layers, self.head = nn.ModuleList(Layer(width) for _ in range(3)), nn.Linear(width, 3)

    def forward(self, x, causal=True):
        x = self.front(x) + self.hour[: x.shape[1]]
        for at, layer in enumerate(self.layers):
            x = layer(x, causal=causal and at == 0)  # fault: AS201
        return self.head(x)


torch.manual_seed(84)
model = Weather().eval()
inputs = torch.randn(2, 10, 3)
expect = {"causal": True}
