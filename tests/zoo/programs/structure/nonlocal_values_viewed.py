"""Non-local block over a feature map."""
import torch
from torch import nn

class NonLocal(nn.Module):
    def __init__(self, channels=16, inner=8):
        super().__init__()
        self.theta = nn.Conv2d(channels, inner, 1)
        self.phi = nn.Conv2d(channels, inner, 1)
        self.g = nn.Conv2d(channels, inner, 1)
        self.back = nn.Conv2d(inner, channels, 1)
        self.inner = inner

    def forward(self, x):
        b, c, h, w = x.shape
        q = self.theta(x).view(b, self.inner, h * w).permute(0, 2, 1)
        k = self.phi(x).view(b, self.inner, h * w)
        v = self.g(x).view(b, h * w, self.inner)  # fault: AS103
        a = torch.softmax(torch.bmm(q, k) * self.inner ** -0.5, dim=-1)
        y = torch.bmm(a, v).permute(0, 2, 1).reshape(b, self.inner, h, w)
        return x + self.back(y)

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = NonLocal().eval()
inputs = torch.randn(2, 16, 4, 4, generator=torch.Generator().manual_seed(1))
