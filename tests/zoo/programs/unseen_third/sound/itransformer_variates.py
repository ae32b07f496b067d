"""iTransformer: each variate of the series is one token, order of the variates has no meaning."""
import torch
import torch.nn as nn


class ITransformer(nn.Module):
    def __init__(self, seq_len=24, pred_len=6, d=32, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Linear(seq_len, d)
        enc = nn.TransformerEncoderLayer(d, heads, 64, dropout=0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(enc, layers, norm=nn.LayerNorm(d), enable_nested_tensor=False)
        self.projector = nn.Linear(d, pred_len)

    def forward(self, x_enc):
        means = x_enc.mean(1, keepdim=True).detach()
        x = x_enc - means
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        y = self.encoder(self.embed((x / std).permute(0, 2, 1)))
        return self.projector(y).permute(0, 2, 1) * std + means


with torch.random.fork_rng():
    torch.manual_seed(16)
    model = ITransformer().eval()
inputs = torch.randn(3, 24, 7, generator=torch.Generator().manual_seed(16))
