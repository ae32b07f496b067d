"""Conformer encoder layer with convolution module and multi-head self-attention, after the speech toolkit."""
import math

import torch
from torch import nn
import torch.nn.functional as F


class ConvModule(nn.Module):
    def __init__(self, channels, kernel_size=7):
        super().__init__()
        self.pointwise1 = nn.Conv1d(channels, 2 * channels, 1)
        self.depthwise = nn.Conv1d(channels, channels, kernel_size, padding=kernel_size // 2, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.pointwise2 = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        y = F.glu(self.pointwise1(x.transpose(1, 2)), dim=1)
        y = self.depthwise(y).transpose(1, 2)
        return self.pointwise2(F.silu(self.norm(y)).transpose(1, 2)).transpose(1, 2)


class MHSA(nn.Module):
    def __init__(self, n_head, n_feat):
        super().__init__()
        self.d_k = n_feat // n_head
        self.h = n_head
        self.linear_q, self.linear_k, self.linear_v, self.linear_out = (nn.Linear(n_feat, n_feat) for _ in range(4))

    def forward_qkv(self, x):
        n_batch = x.size(0)
        return [lin(x).view(n_batch, -1, self.h, self.d_k).transpose(1, 2) for lin in (self.linear_q, self.linear_k, self.linear_v)]

    def forward_attention(self, value, scores):
        n_batch = value.size(0)
        attn = torch.softmax(scores, dim=-1)
        x = torch.matmul(attn, value)
        x = x.contiguous().view(n_batch, -1, self.h * self.d_k)  # fault: AS103
        return self.linear_out(x)

    def forward(self, x):
        q, k, v = self.forward_qkv(x)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        return self.forward_attention(v, scores)


class ConformerLayer(nn.Module):
    def __init__(self, d=48, heads=4):
        super().__init__()
        self.ff1 = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))
        self.norm_mha, self.norm_conv, self.norm_final = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.mha = MHSA(heads, d)
        self.conv = ConvModule(d)

    def forward(self, xs):
        xs = xs + 0.5 * self.ff1(xs)
        xs = xs + self.mha(self.norm_mha(xs))
        xs = xs + self.conv(self.norm_conv(xs))
        return self.norm_final(xs)


with torch.random.fork_rng():
    torch.manual_seed(11)
    model = ConformerLayer().eval()
inputs = (torch.randn(3, 22, 48, generator=torch.Generator().manual_seed(4)),)
