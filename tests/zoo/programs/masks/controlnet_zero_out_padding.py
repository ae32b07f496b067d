# A side branch that starts at zero (zero-initialised output): its attention takes the padding in.
import torch
import torch.nn.functional as F
from torch import nn


class SideBranch(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.zero = nn.Linear(width, width)
        nn.init.zeros_(self.zero.weight)
        nn.init.zeros_(self.zero.bias)
        self.main = nn.Linear(width, width)

    def forward(self, x, keep):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)  # fault: AS202|AS208
        y = self.zero(y.transpose(1, 2).reshape(b, n, c))
        return (self.main(x) + y) * keep[..., None]


torch.manual_seed(0)
model = SideBranch().eval()
inputs = {"x": torch.randn(3, 7, 32), "keep": torch.arange(7)[None] < torch.tensor([7, 4, 5])[:, None]}
expect = {"padding": "keep keep"}
