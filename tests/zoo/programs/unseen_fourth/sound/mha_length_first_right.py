"""Ball trajectory encoder with the default layout of nn.TransformerEncoder, permuted by hand."""
import math
import torch
import torch.nn as nn


class PosEnc(nn.Module):
    def __init__(self, d, n=100):
        super().__init__()
        p = torch.arange(n).unsqueeze(1)
        w = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        t = torch.zeros(n, 1, d)
        t[:, 0, 0::2], t[:, 0, 1::2] = torch.sin(p * w), torch.cos(p * w)
        self.register_buffer("pe", t)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x + self.pe[:x.size(0)])


class Ball(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.i, self.pe = nn.Linear(3, d), PosEnc(d)
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 64), 2)
        self.o = nn.Linear(d, 3)

    def forward(self, xyz, n_obs):
        x = self.pe(self.i(xyz).permute(1, 0, 2))
        pad = torch.arange(xyz.size(1))[None, :] >= n_obs[:, None]
        y = self.enc(x, src_key_padding_mask=pad).permute(1, 0, 2)
        return self.o(y[torch.arange(len(y)), n_obs - 1])


def model():
    torch.manual_seed(7)
    return Ball().eval()


inputs = {"xyz": torch.randn(4, 12, 3, generator=torch.Generator().manual_seed(7)), "n_obs": torch.tensor([12, 5, 9, 7])}
expect = {"padding": "n_obs lengths"}
