"""Speech encoder: two frames make one, by their mean."""

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, bands=12, width=32):
        super().__init__()
        self.bands, self.place = nn.Linear(bands, width), nn.Embedding(20, width)
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.head = nn.Linear(width, 11)

    def forward(self, frames, n_frames):
        b, t, _ = frames.shape
        x = self.bands(frames).view(b, t // 2, 2, -1).mean(2)
        x = x + self.place.weight[: t // 2]
        left = (n_frames - 1) // 2 + 2  # fault: AS202
        padded = torch.arange(t // 2) >= left[:, None]
        return self.head(x + self.attend(x, x, x, key_padding_mask=padded)[0])


torch.manual_seed(0)
model = Encoder().eval()
inputs = {"frames": torch.randn(3, 20, 12), "n_frames": torch.tensor([20, 12, 8])}
expect = {"padding": "n_frames lengths"}
