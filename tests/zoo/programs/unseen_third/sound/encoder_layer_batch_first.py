"""Sentence encoder from the PyTorch tutorial with small changes."""
import math
import torch
from torch import nn


class SentenceEncoder(nn.Module):
    def __init__(self, ntoken=70, d_model=32, nhead=4, d_hid=64, nlayers=2, dropout=0.2):
        super().__init__()
        self.embedding = nn.Embedding(ntoken, d_model)
        pe = torch.zeros(1, 100, d_model)
        pos = torch.arange(100).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe[0, :, 0::2], pe[0, :, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)
        encoder_layers = nn.TransformerEncoderLayer(d_model, nhead, d_hid, dropout, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layers, nlayers, enable_nested_tensor=False)
        self.d_model = d_model
        self.classifier = nn.Linear(d_model, 5)

    def forward(self, src):
        """src: [batch, length]"""
        x = self.embedding(src) * math.sqrt(self.d_model)
        x = x + self.pe[:, : src.size(1)]
        output = self.transformer_encoder(x)
        return self.classifier(output.mean(dim=1))


torch.manual_seed(0)
model = SentenceEncoder().eval()
