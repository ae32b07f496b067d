"""EEG motor imagery classifier with attention over time windows."""
import torch
import torch.nn as nn


class TemporalBlock(nn.Module):
    def __init__(self, dim, heads, dropout=0.3):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, dropout, batch_first=True)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.ELU(), nn.Dropout(dropout), nn.Linear(dim * 2, dim))

    def forward(self, x):
        y, _ = self.attn(x, x, x)
        x = self.norm1(x + y)
        x = self.norm2(x + self.mlp(x))
        return x


class EEGNetFormer(nn.Module):
    def __init__(self, electrodes=8, dim=24, heads=3, classes=4):
        super().__init__()
        self.temporal = nn.Conv1d(electrodes, dim, 9, stride=4)
        self.bn = nn.BatchNorm1d(dim)
        self.pos = nn.Parameter(torch.zeros(1, 64, dim).normal_(0, 0.02))
        self.blocks = nn.Sequential(TemporalBlock(dim, heads), TemporalBlock(dim, heads))
        self.fc = nn.Linear(dim, classes)

    def forward(self, eeg):
        x = torch.nn.functional.elu(self.bn(self.temporal(eeg))).transpose(1, 2)
        x = self.blocks(x + self.pos[:, :x.size(1)])
        return self.fc(x.mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(77)
        return EEGNetFormer().eval()


inputs = torch.randn(3, 8, 61, generator=torch.Generator().manual_seed(76))
