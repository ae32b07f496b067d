"""Video encoder: frames are rows of the batch, and a message token passes between those of a clip."""
import torch
from torch import nn

FRAMES = 4


class FrameLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.message_fc = nn.Linear(width, width)
        self.message_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.self_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, hidden):
        batch_time, seq_length, width = hidden.shape
        batch = batch_time // FRAMES
        message = self.message_fc(hidden[:, 0]).view(batch, FRAMES, width)
        normed = self.norm1(message)
        message = message + self.message_attn(normed, normed, normed, need_weights=False)[0]
        hidden = torch.cat([hidden, message.view(-1, 1, width)], dim=1)
        normed = self.norm2(hidden)
        hidden = hidden + self.self_attn(normed, normed, normed, need_weights=False)[0]
        return hidden[:, :seq_length]


class FrameEncoder(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.cls = nn.Parameter(torch.randn(1, 1, width) * 0.2)
        self.pos = nn.Parameter(torch.randn(1, 10, width) * 0.2)
        self.layers = nn.ModuleList(FrameLayer(width, heads) for _ in range(2))

    def forward(self, pixel_values):
        x = self.patches(pixel_values).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        for layer in self.layers:
            x = layer(x)
        return x[:, 0]


def model():
    torch.manual_seed(0)
    return FrameEncoder().eval()


inputs = torch.randn(2 * FRAMES, 3, 24, 24, generator=torch.Generator().manual_seed(2))
