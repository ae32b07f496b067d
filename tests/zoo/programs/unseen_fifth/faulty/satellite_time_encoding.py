"""Crop classification from satellite time series with sinusoidal days."""
import numpy as np
import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=120):
        super().__init__()
        pe = np.zeros((max_len, d_model), dtype=np.float32)
        for pos in range(max_len):
            for i in range(0, d_model, 2):
                pe[pos, i] = np.sin(pos / (10000 ** ((2 * i) / d_model)))  # fault: AS505
                pe[pos, i + 1] = np.cos(pos / (10000 ** ((2 * (i + 1)) / d_model)))  # fault: AS505
        self.register_buffer('pe', torch.from_numpy(pe).unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, :x.shape[1]]


class LTAE(nn.Module):
    """Light temporal attention: one learned query per head."""

    def __init__(self, d=32, n_head=4, d_k=8):
        super().__init__()
        self.n_head, self.d_k = n_head, d_k
        self.Q = nn.Parameter(torch.randn(n_head, d_k) * (2.0 / d_k) ** 0.5)
        self.fc_k = nn.Linear(d, n_head * d_k)

    def forward(self, x):
        b, t, d = x.shape
        k = self.fc_k(x).view(b, t, self.n_head, self.d_k).permute(0, 2, 1, 3)
        attn = torch.einsum('hd,bhtd->bht', self.Q, k) / self.d_k ** 0.5
        attn = attn.softmax(-1)
        v = x.view(b, t, self.n_head, d // self.n_head).permute(0, 2, 1, 3)
        return torch.einsum('bht,bhtd->bhd', attn, v).reshape(b, d)


class CropNet(nn.Module):
    def __init__(self, bands=10, d=32, classes=7):
        super().__init__()
        self.inconv = nn.Linear(bands, d)
        self.pos = PositionalEncoding(d)
        self.tae = LTAE(d)
        self.mlp = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, classes))

    def forward(self, x):
        return self.mlp(self.tae(self.pos(self.inconv(x))))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(59)
        return CropNet().eval()


inputs = torch.randn(3, 16, 10, generator=torch.Generator().manual_seed(60))
