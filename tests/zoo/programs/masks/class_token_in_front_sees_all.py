"""Time series: a class token stands in front, and the encoder sees both ways."""

import torch
import torch.nn as nn


class SeriesClassifier(nn.Module):
    def __init__(self, channels=5, d_model=32, classes=4):
        super().__init__()
        self.project = nn.Linear(channels, d_model)
        self.cls = nn.Parameter(torch.randn(1, 1, d_model) * 0.02)
        self.position = nn.Parameter(torch.randn(1, 64, d_model) * 0.02)
        layer = nn.TransformerEncoderLayer(d_model, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.classify = nn.Linear(d_model, classes)

    def forward(self, series):
        x = self.project(series)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        x = x + self.position[:, : x.size(1)]
        x = self.encoder(x)
        summary = x.select(1, 0)
        return self.classify(summary)


model = SeriesClassifier().eval()
inputs = torch.randn(3, 10, 5)
