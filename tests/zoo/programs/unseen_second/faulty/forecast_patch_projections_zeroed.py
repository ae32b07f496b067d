"""PatchTST-like forecaster: every channel is a series of its own, patches are the tokens."""

import torch
from torch import nn


class PatchForecaster(nn.Module):
    def __init__(self, patch_len=8, stride=4, context=48, horizon=12, d_model=32, n_heads=4):
        super().__init__()
        self.patch_len, self.stride = patch_len, stride
        self.num_patches = (context - patch_len) // stride + 1
        self.W_P = nn.Linear(patch_len, d_model)
        self.W_pos = nn.Parameter(torch.empty(self.num_patches, d_model).uniform_(-0.02, 0.02))
        self.attn = nn.ModuleList(nn.MultiheadAttention(d_model, n_heads, batch_first=True) for _ in range(2))
        for layer in self.attn:
            nn.init.zeros_(layer.in_proj_weight)  # fault: AS902|AS901
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(2))
        self.flatten = nn.Flatten(start_dim=-2)
        self.linear = nn.Linear(d_model * self.num_patches, horizon)

    def forward(self, series):
        batch, context, channels = series.shape
        mean = series.mean(1, keepdim=True)
        std = series.std(1, keepdim=True) + 1e-5
        z = ((series - mean) / std).permute(0, 2, 1)
        z = z.unfold(dimension=-1, size=self.patch_len, step=self.stride)
        z = self.W_P(z) + self.W_pos
        z = z.reshape(batch * channels, self.num_patches, -1)
        for norm, attn in zip(self.norms, self.attn):
            h = norm(z)
            z = z + attn(h, h, h, need_weights=False)[0]
        y = self.linear(self.flatten(z)).view(batch, channels, -1).permute(0, 2, 1)
        return y * std + mean


with torch.random.fork_rng():
    torch.manual_seed(99)
    model = PatchForecaster().eval()
    inputs = {"series": torch.randn(3, 48, 5).cumsum(1)}
# also: AS902 AS901 AS402 AS401 AS903
