"""Gesture recogniser on EMG signals."""
import torch
import torch.nn as nn


class EMGBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.mha = nn.MultiheadAttention(d, h, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ffn = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def forward(self, x):
        out, _ = self.mha(x, x, x)
        x = self.norm1(out + out)  # fault: AS904
        return self.norm2(x + self.ffn(x))


class EMGNet(nn.Module):
    def __init__(self, ch=8, d=32, h=4, gestures=6):
        super().__init__()
        self.conv = nn.Conv1d(ch, d, 5, 2, 2)
        self.pos = nn.Parameter(torch.randn(1, 32, d) * .1)
        self.b = nn.Sequential(EMGBlock(d, h), EMGBlock(d, h))
        self.o = nn.Linear(d, gestures)

    def forward(self, emg):
        x = self.conv(emg).mT
        return self.o(self.b(x + self.pos[:, :x.size(1)]).mean(1))


def model():
    torch.manual_seed(9)
    return EMGNet().eval()


inputs = torch.randn(3, 8, 30, generator=torch.Generator().manual_seed(9))
