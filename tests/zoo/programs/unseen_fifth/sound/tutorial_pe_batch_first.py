"""IMDB transformer classifier: the tutorial's PositionalEncoding with batch-first data."""
import math
import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=500):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[: x.size(1)].transpose(0, 1)
        return self.dropout(x)


class TextClassifier(nn.Module):
    def __init__(self, num_tokens=350, d_model=52, nhead=4, num_class=2):
        super().__init__()
        self.embedding = nn.Embedding(num_tokens, d_model)
        self.pos_encoder = PositionalEncoding(d_model)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d_model=d_model, nhead=nhead, dim_feedforward=80, batch_first=True), num_layers=2)
        self.fc = nn.Linear(d_model, num_class)
        self.d_model = d_model

    def forward(self, text):
        x = self.embedding(text) * math.sqrt(self.d_model)
        x = self.pos_encoder(x)
        x = self.encoder(x)
        return self.fc(x.mean(dim=1))


with torch.random.fork_rng():
    torch.manual_seed(502)
    model = TextClassifier().eval()
inputs = (torch.randint(0, 350, (4, 15), generator=torch.Generator().manual_seed(502)),)
