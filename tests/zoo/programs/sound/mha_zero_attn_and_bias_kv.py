"""Fuses two sensor streams with nn.MultiheadAttention, a spare zero key and learned extra keys."""

import torch
from torch import nn


class SensorFusion(nn.Module):
    def __init__(self, width=40, heads=5):
        super().__init__()
        self.audio_norm = nn.LayerNorm(width)
        self.video_norm = nn.LayerNorm(width)
        self.cross = nn.MultiheadAttention(width, heads, batch_first=True, add_zero_attn=True)
        self.self_attn = nn.MultiheadAttention(width, heads, batch_first=True, add_bias_kv=True)
        self.out_norm = nn.LayerNorm(width)

    def forward(self, audio, video, video_missing):
        mem = self.video_norm(video)
        h, _ = self.cross(self.audio_norm(audio), mem, mem, key_padding_mask=video_missing, need_weights=False)
        audio = audio + h
        y = self.out_norm(audio)
        h, weights = self.self_attn(y, y, y, average_attn_weights=False)
        return audio + h, weights


def build():
    with torch.random.fork_rng():
        torch.manual_seed(30)
        return SensorFusion().eval()


model = build()

_g = torch.Generator().manual_seed(31)
inputs = {
    "audio": torch.randn(3, 8, 40, generator=_g),
    "video": torch.randn(3, 6, 40, generator=_g),
    # the last clip has no picture at all: it falls back on the zero key
    "video_missing": torch.arange(6)[None] >= torch.tensor([6, 4, 0])[:, None],
}
# note: AS501
