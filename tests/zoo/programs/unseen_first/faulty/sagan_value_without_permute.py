"""Self-attention GAN layer on feature maps with a learned residual weight that starts at zero."""
import torch
from torch import nn


class SelfAttn(nn.Module):
    def __init__(self, in_dim, start=0.0):
        super().__init__()
        self.query_conv = nn.Conv2d(in_dim, in_dim // 4, 1)
        self.key_conv = nn.Conv2d(in_dim, in_dim // 4, 1)
        self.value_conv = nn.Conv2d(in_dim, in_dim, 1)
        self.gamma = nn.Parameter(torch.full((1,), start))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        m_batchsize, C, width, height = x.size()
        proj_query = self.query_conv(x).view(m_batchsize, -1, width * height).permute(0, 2, 1)
        proj_key = self.key_conv(x).view(m_batchsize, -1, width * height)
        energy = torch.bmm(proj_query, proj_key)
        attention = self.softmax(energy)
        proj_value = self.value_conv(x).view(m_batchsize, -1, width * height)
        out = torch.bmm(proj_value, attention)  # fault: AS101
        return self.gamma * out.view(m_batchsize, C, width, height) + x


torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 24, 3, padding=1), SelfAttn(24, 0.7), nn.ReLU(), nn.Conv2d(24, 5, 1)).eval()
inputs = torch.randn(2, 3, 7, 6)
