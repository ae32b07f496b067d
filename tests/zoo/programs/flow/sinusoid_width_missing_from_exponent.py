"""Audio event encoder, sequence first, with sinusoidal positions."""

import math

import torch
from torch import nn


def sinusoids(length, channels, max_timescale=10000.0):
    log_step = math.log(max_timescale)
    inv = torch.exp(-log_step * torch.arange(0, channels, 2))  # fault: AS505
    scaled = torch.arange(length)[:, None] * inv[None, :]
    table = torch.zeros(length, channels)
    table[:, 0::2] = scaled.sin()
    table[:, 1::2] = scaled.cos()
    return table


class AudioEncoder(nn.Module):
    def __init__(self, mels=16, width=44, heads=4, layers=1, ctx=90):
        super().__init__()
        self.conv = nn.Conv1d(mels, width, kernel_size=3, padding=1)
        self.register_buffer("positional_embedding", sinusoids(ctx, width))
        layer = nn.TransformerEncoderLayer(width, heads, 60, dropout=0.0, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, mel):
        x = torch.relu(self.conv(mel)).permute(2, 0, 1)
        x = x + self.positional_embedding[: x.shape[0], None]
        return self.blocks(x).permute(1, 2, 0)


with torch.random.fork_rng():
    torch.manual_seed(62)
    model = AudioEncoder().eval()

inputs = {"mel": torch.randn(3, 16, 26, generator=torch.Generator().manual_seed(62))}
expect = {"batch_axis": 0, "sequence_axis": 2}
