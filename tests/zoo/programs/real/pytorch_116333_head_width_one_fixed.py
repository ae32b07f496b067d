"""Time-series forecaster with one feature per head, https://github.com/pytorch/pytorch/issues/116333."""

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


class ScalarHeads(nn.Module):
    def __init__(self, n_series):
        super().__init__()
        self.to_q = nn.Conv1d(n_series, n_series, kernel_size=1)
        self.to_kv = nn.Linear(n_series, 2 * n_series)
        self.to_out = nn.Linear(n_series, n_series)

    def forward(self, x):
        b, t, h = x.shape
        query = self.to_q(x.transpose(1, 2))
        query = query.unsqueeze(-1)
        key, value = self.to_kv(x).view(b, t, 2, h, 1).permute(2, 0, 3, 1, 4).contiguous()
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            y = scaled_dot_product_attention(query, key, value)
        return self.to_out(y.squeeze(-1).transpose(1, 2))


class Forecaster(nn.Module):
    def __init__(self, n_series=5, horizon=3):
        super().__init__()
        self.norm = nn.LayerNorm(n_series)
        self.attn = ScalarHeads(n_series)
        self.head = nn.Linear(n_series, n_series * horizon)
        self.horizon = horizon

    def forward(self, history):
        h = history + self.attn(self.norm(history))
        out = self.head(h[:, -1])
        return out.view(history.shape[0], self.horizon, -1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(11)
        return Forecaster().eval()


inputs = torch.randn(2, 9, 5, generator=torch.Generator().manual_seed(5))
