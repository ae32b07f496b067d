"""Attention on top of an LSTM for sensor data (batch, time, channels)."""
import torch
import torch.nn as nn


class LSTMAttn(nn.Module):
    def __init__(self, n_feat=6, hidden=24, heads=3):
        super().__init__()
        self.lstm = nn.LSTM(n_feat, hidden, batch_first=True)
        self.attn = nn.MultiheadAttention(hidden, heads)
        self.fc = nn.Linear(hidden, 1)

    def forward(self, x):
        out, (h, c) = self.lstm(x)
        seq = out.permute(1, 0, 2)
        att, w = self.attn(seq, seq, seq)
        return self.fc(out + att.permute(1, 0, 2))


torch.manual_seed(3)
model = LSTMAttn().eval()
inputs = torch.randn(4, 9, 6, generator=torch.Generator().manual_seed(3))
