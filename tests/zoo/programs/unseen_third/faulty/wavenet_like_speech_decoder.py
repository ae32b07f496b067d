"""Autoregressive mel decoder: pre-net, causal transformer layers, previous frame in, next frame out."""
import torch
import torch.nn as nn


class MelDecoder(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.hp = hp
        self.prenet = nn.Sequential(nn.Linear(hp.mels, hp.d), nn.ReLU(), nn.Linear(hp.d, hp.d))
        self.alpha = nn.Parameter(torch.ones(1))
        self.pos = nn.Embedding(64, hp.d)
        self.layers = nn.ModuleList()
        for _ in range(hp.n):
            self.layers.append(nn.TransformerEncoderLayer(hp.d, hp.h, hp.d * 2, dropout=0.1, batch_first=True))
        self.mel_linear = nn.Linear(hp.d, hp.mels)

    def forward(self, mel):
        T = mel.size(1)
        x = self.prenet(mel) + self.alpha * self.pos(torch.arange(T, device=mel.device))
        mask = torch.triu(torch.ones(T, T, dtype=torch.bool, device=mel.device), diagonal=1)
        for i, layer in enumerate(self.layers):
            x = layer(x, src_mask=mask if i == 0 else None)  # fault: AS201
        return self.mel_linear(x)


class HP:
    mels, d, n, h = 10, 32, 3, 4


with torch.random.fork_rng():
    torch.manual_seed(41)
    model = MelDecoder(HP).eval()
inputs = torch.randn(2, 15, 10, generator=torch.Generator().manual_seed(41))
expect = {"causal": True}
