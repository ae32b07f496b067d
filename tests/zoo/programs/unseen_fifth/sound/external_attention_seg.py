"""External attention with double normalisation (two linear layers as memory)."""
import torch
import torch.nn as nn


class External_attention(nn.Module):
    def __init__(self, c, k=24):
        super().__init__()
        self.k = k
        self.conv1 = nn.Conv2d(c, c, 1)
        self.linear_0 = nn.Conv1d(c, self.k, 1, bias=False)
        self.linear_1 = nn.Conv1d(self.k, c, 1, bias=False)
        self.linear_1.weight.data = self.linear_0.weight.data.permute(1, 0, 2).clone()
        self.conv2 = nn.Sequential(nn.Conv2d(c, c, 1, bias=False), nn.BatchNorm2d(c))

    def forward(self, x):
        idn = x
        x = self.conv1(x)
        b, c, h, w = x.size()
        n = h * w
        x = x.view(b, c, h * w)
        attn = self.linear_0(x)                                   # b, k, n
        attn = nn.functional.softmax(attn, dim=-1)                # over pixels
        attn = attn / (1e-9 + attn.sum(dim=1, keepdim=True))      # over the memory
        x = self.linear_1(attn)
        x = self.conv2(x.view(b, c, h, w))
        return torch.relu(x + idn)


torch.manual_seed(2)
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), External_attention(16), nn.Conv2d(16, 4, 1)).eval()
inputs = torch.rand(2, 3, 9, 11, generator=torch.Generator().manual_seed(3))
