"""Electricity load forecasting: transformer encoder over the last week of hours."""
import torch
import torch.nn as nn


class LearnablePositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=200):
        super().__init__()
        self.pe = nn.Parameter(torch.empty(1, max_len, d_model).uniform_(-0.02, 0.02))

    def forward(self, x):
        return x + self.pe[:, :x.size(1)]


class LoadForecaster(nn.Module):
    def __init__(self, n_features=6, d_model=32, nhead=4, num_layers=2, horizon=5, dropout=0.1):
        super(LoadForecaster, self).__init__()
        self.input_fc = nn.Linear(n_features, d_model)
        self.pos = LearnablePositionalEncoding(d_model)
        encoder_layer = nn.TransformerEncoderLayer(d_model=d_model, nhead=nhead,
                                                   dim_feedforward=64, dropout=dropout, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layer, num_layers=num_layers)
        self.decoder = nn.Linear(d_model, horizon)

    def forward(self, src):
        # src: (batch, window, features)
        x = self.pos(self.input_fc(src))
        x = self.transformer_encoder(x)
        x = x[:, -1, :]
        return self.decoder(x)


torch.manual_seed(42)
model = LoadForecaster()
model.eval()
inputs = torch.randn(5, 24, 6, generator=torch.Generator().manual_seed(42))
