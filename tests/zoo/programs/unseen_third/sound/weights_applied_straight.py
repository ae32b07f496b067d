"""Attention block from a GAN repo, text version (batch, time, channels)."""
import torch
import torch.nn as nn


class SAGANText(nn.Module):
    def __init__(self, in_dim=32):
        super().__init__()
        self.query_conv = nn.Conv1d(in_dim, in_dim // 4, 1)
        self.key_conv = nn.Conv1d(in_dim, in_dim // 4, 1)
        self.value_conv = nn.Conv1d(in_dim, in_dim, 1)
        self.gamma = nn.Parameter(torch.tensor(0.5))
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x):
        """x: (B, T, C)"""
        x = x.transpose(1, 2)
        proj_query = self.query_conv(x).permute(0, 2, 1)
        proj_key = self.key_conv(x)
        energy = torch.bmm(proj_query, proj_key) / proj_query.size(-1) ** 0.5
        attention = self.softmax(energy)
        proj_value = self.value_conv(x)
        out = torch.bmm(proj_value, attention.permute(0, 2, 1))
        return (self.gamma * out + x).transpose(1, 2)


torch.manual_seed(0)
model = SAGANText().eval()
inputs = torch.randn(2, 13, 32, generator=torch.Generator().manual_seed(0))
