"""Fusion of audio and text for sentiment, sizes found at run time."""
import torch
import torch.nn as nn


class Fusion(nn.Module):
    def __init__(self, d_text=30, d_audio=18, heads=3, classes=3):
        super().__init__()
        self.text_pos = nn.Parameter(torch.randn(40, d_text) * .1)
        self.kv = nn.Linear(d_audio, d_text)
        self.att = nn.MultiheadAttention(d_text, heads, batch_first=True)
        self.audio_in = nn.Linear(d_audio, d_text)
        self.cls = nn.Linear(d_text, classes)

    def forward(self, text, audio):
        torch.manual_seed(0)
        proj = self.audio_in
        a = proj(audio)
        t = text + self.text_pos[:text.size(1)]
        y, _ = self.att(t, a, self.kv(audio))
        return self.cls((t + y).mean(1))


def model():
    torch.manual_seed(5)
    return Fusion().eval()


_g = torch.Generator().manual_seed(5)
inputs = (torch.randn(2, 9, 30, generator=_g), torch.randn(2, 25, 18, generator=_g))
