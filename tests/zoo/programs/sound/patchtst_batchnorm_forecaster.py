"""PatchTST: every channel a series of its own, patches as tokens, batch norm in the blocks."""

import torch
from torch import nn


class RevIN(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def normalise(self, x):
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + self.eps).detach()
        return (x - mean) / std * self.weight + self.bias, (mean, std)

    def restore(self, y, stats):
        return (y - self.bias) / self.weight * stats[1] + stats[0]


class TokenBatchNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.bn = nn.BatchNorm1d(d)

    def forward(self, x):
        return self.bn(x.transpose(1, 2)).transpose(1, 2)


class TSTEncoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.W_Q, self.W_K, self.W_V, self.to_out = (nn.Linear(d, d) for _ in range(4))
        self.norm_attn, self.norm_ffn = TokenBatchNorm(d), TokenBatchNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Dropout(0.2), nn.Linear(2 * d, d))

    def forward(self, src):
        bs, q_len, d = src.shape
        q_s = self.W_Q(src).view(bs, q_len, self.h, -1).transpose(1, 2)
        k_s = self.W_K(src).view(bs, q_len, self.h, -1).permute(0, 2, 3, 1)
        v_s = self.W_V(src).view(bs, q_len, self.h, -1).transpose(1, 2)
        attn = torch.softmax(torch.matmul(q_s, k_s) * (d // self.h) ** -0.5, dim=-1)
        out = torch.matmul(attn, v_s).transpose(1, 2).contiguous().view(bs, q_len, d)
        src = self.norm_attn(src + self.to_out(out))
        return self.norm_ffn(src + self.ff(src))


class PatchTST(nn.Module):
    def __init__(self, channels=4, context=36, horizon=9, patch=6, stride=3, d=32, h=4):
        super().__init__()
        self.patch, self.stride = patch, stride
        self.n_patches = (context - patch) // stride + 1
        self.revin = RevIN(channels)
        self.W_P = nn.Linear(patch, d)
        self.W_pos = nn.Parameter(torch.empty(self.n_patches, d).uniform_(-0.02, 0.02))
        self.layers = nn.Sequential(TSTEncoderLayer(d, h), TSTEncoderLayer(d, h))
        self.head = nn.Linear(d * self.n_patches, horizon)

    def forward(self, past_values):
        x, stats = self.revin.normalise(past_values)
        b, _, c = x.shape
        z = x.transpose(1, 2).unfold(-1, self.patch, self.stride)
        z = (self.W_P(z) + self.W_pos).reshape(b * c, self.n_patches, -1)
        z = self.layers(z).reshape(b, c, -1)
        return self.revin.restore(self.head(z).transpose(1, 2), stats)


with torch.random.fork_rng():
    torch.manual_seed(92)
    model = PatchTST().eval()

inputs = {"past_values": torch.randn(3, 36, 4, generator=torch.Generator().manual_seed(93)).cumsum(1)}
