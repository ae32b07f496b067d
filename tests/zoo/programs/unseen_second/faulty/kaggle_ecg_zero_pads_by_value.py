"""Heartbeat classifier: variable-length windows, CLS token, nn.TransformerEncoder."""

import torch
from torch import nn


class CFG:
    channels = 3
    d_model = 40
    nhead = 4
    num_layers = 2
    n_classes = 4
    max_len = 64


class Net(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.proj = nn.Linear(cfg.channels, cfg.d_model)
        self.cls = nn.Parameter(torch.randn(1, 1, cfg.d_model) * 0.1)
        self.pos = nn.Parameter(torch.randn(1, cfg.max_len, cfg.d_model) * 0.1)
        layer = nn.TransformerEncoderLayer(cfg.d_model, cfg.nhead, dim_feedforward=80, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, cfg.num_layers)
        self.head = nn.Sequential(nn.LayerNorm(cfg.d_model), nn.Linear(cfg.d_model, cfg.n_classes))

    def forward(self, signal, valid):
        """valid: 1 for measured samples, 0 for padding."""
        b = signal.size(0)
        x = torch.cat([self.cls.expand(b, -1, -1), self.proj(signal)], dim=1)
        x = x + self.pos[:, : x.size(1)]
        signal = signal * valid.unsqueeze(-1)
        pad = x.abs().sum(-1) == 0  # fault: AS202|AS208
        x = self.encoder(x, src_key_padding_mask=pad)  # fault: AS202|AS208
        return self.head(x[:, 0])


def seed_everything(seed):
    torch.manual_seed(seed)


seed_everything(2021)
model = Net().eval()
signal = torch.randn(4, 25, 3)
valid = (torch.arange(25)[None] < torch.tensor([25, 18, 11, 21])[:, None]).long()
inputs = {"signal": signal, "valid": valid}
expect = {"padding": "valid keep"}
# also: AS208
