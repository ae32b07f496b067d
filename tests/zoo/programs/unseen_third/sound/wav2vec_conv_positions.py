"""wav2vec-like encoder: positions come from a grouped convolution over time."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class W2V(nn.Module):
    def __init__(self, d=32, h=4, layers=2):
        super().__init__()
        self.feature_extractor = nn.Sequential(nn.Conv1d(1, d, 8, 4), nn.GELU(), nn.Conv1d(d, d, 4, 2), nn.GELU())
        self.pos_conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(d, d, 7, padding=3, groups=4), name="weight", dim=2)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(d, h, 64, activation="gelu", batch_first=True) for _ in range(layers)])
        self.layer_norm = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, 28)

    def forward(self, wav):
        x = self.feature_extractor(wav.unsqueeze(1))
        x = x + F.gelu(self.pos_conv(x))
        x = self.layer_norm(x.transpose(1, 2))
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x)


with torch.random.fork_rng():
    torch.manual_seed(31)
    model = W2V().eval()
inputs = torch.randn(2, 180, generator=torch.Generator().manual_seed(31))
