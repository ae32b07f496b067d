"""Speech encoder; masks are kept in a dict by the shape of the batch."""

import torch
from torch import nn


class Speech(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.lift = nn.Linear(10, width)
        self.places = nn.Parameter(torch.randn(50, width) * 0.2)
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.head = nn.Linear(width, 12)
        self._masks = {}

    def padding(self, frames, lengths):
        key = tuple(frames.shape)
        if key not in self._masks:  # fault: AS211
            steps = torch.arange(frames.shape[1])
            self._masks[key] = steps[None] >= lengths[:, None]
        return self._masks[key]

    def forward(self, frames, lengths):
        x = self.lift(frames) + self.places[: frames.shape[1]]
        x = self.layer(x, src_key_padding_mask=self.padding(frames, lengths))
        return self.head(x)


torch.manual_seed(0)
model = Speech().eval()
inputs = {"frames": torch.randn(3, 9, 10), "lengths": torch.tensor([9, 4, 6])}
# also: AS202
