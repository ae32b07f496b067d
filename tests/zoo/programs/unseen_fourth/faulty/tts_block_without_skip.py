"""Phoneme encoder of a speech synthesiser."""
import torch
import torch.nn as nn


class PhonemeLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln_a, self.ln_c = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, h, batch_first=True)
        self.conv = nn.Sequential(nn.Conv1d(d, 2 * d, 3, padding=1), nn.ReLU(), nn.Conv1d(2 * d, d, 1))

    def forward(self, x, pad):
        y = self.ln_a(x)
        x = self.att(y, y, y, key_padding_mask=pad)[0]  # fault: AS904
        y = self.ln_c(x).masked_fill(pad.unsqueeze(-1), 0.)
        return x + self.conv(y.mT).mT


class PhonemeEncoder(nn.Module):
    def __init__(self, n_phones=48, d=32, h=2, layers=3):
        super().__init__()
        self.emb = nn.Embedding(n_phones, d, padding_idx=0)
        self.pos = nn.Embedding(64, d)
        self.layers = nn.ModuleList([PhonemeLayer(d, h) for _ in range(layers)])
        self.dur = nn.Linear(d, 1)

    def forward(self, phones):
        pad = phones.eq(0)
        x = self.emb(phones) + self.pos.weight[:phones.size(1)]
        for l in self.layers:
            x = l(x, pad)
        return self.dur(x).squeeze(-1).masked_fill(pad, 0.)


def model():
    torch.manual_seed(11)
    return PhonemeEncoder().eval()


inputs = torch.tensor([[3, 7, 9, 14, 40, 12, 6, 0, 0], [8, 22, 31, 0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7, 8, 9]])
