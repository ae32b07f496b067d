"""iTransformer: every variate is a token, attention across variates."""
import torch
import torch.nn as nn


class DataEmbedding_inverted(nn.Module):
    def __init__(self, c_in, d_model, dropout=0.1):
        super().__init__()
        self.value_embedding = nn.Linear(c_in, d_model)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x, x_mark):
        x = x.permute(0, 2, 1)
        if x_mark is not None:
            x = torch.cat([x, x_mark.permute(0, 2, 1)], 1)
        return self.dropout(self.value_embedding(x))


class ITransformer(nn.Module):
    def __init__(self, seq_len=24, pred_len=6, d_model=32, n_heads=4, e_layers=2, use_norm=True):
        super().__init__()
        self.use_norm = use_norm
        self.enc_embedding = DataEmbedding_inverted(seq_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, n_heads, 64, 0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, e_layers, norm=nn.LayerNorm(d_model))
        self.projector = nn.Linear(d_model, pred_len)

    def forward(self, x_enc, x_mark_enc=None):
        if self.use_norm:
            means = x_enc.mean(1, keepdim=True).detach()
            x_enc = x_enc - means
            stdev = torch.sqrt(torch.var(x_enc, dim=1, keepdim=True, unbiased=False) + 1e-5)
            x_enc = x_enc / stdev
        _, _, N = x_enc.shape
        enc_out = self.encoder(self.enc_embedding(x_enc, x_mark_enc))
        dec_out = self.projector(enc_out).permute(0, 2, 1)[:, :, :N]
        if self.use_norm:
            dec_out = dec_out * stdev + means
        return dec_out


def model():
    with torch.random.fork_rng():
        torch.manual_seed(20)
        return ITransformer().eval()


g = torch.Generator().manual_seed(21)
inputs = (torch.randn(2, 24, 7, generator=g), torch.randn(2, 24, 3, generator=g))
