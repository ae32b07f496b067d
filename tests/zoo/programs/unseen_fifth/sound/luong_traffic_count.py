"""Dot attention after Luong between a GRU decoder and a GRU encoder, no scaling as in the paper."""
# note: AS301
import torch
import torch.nn as nn


class LuongDecoder(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.cell = nn.GRU(1, hidden, batch_first=True)
        self.concat = nn.Linear(2 * hidden, hidden, bias=False)
        self.out = nn.Linear(hidden, 1)

    def forward(self, y, h0, enc):
        dec, _ = self.cell(y, h0)
        align = torch.bmm(dec, enc.transpose(1, 2)).softmax(dim=2)
        ctx = torch.bmm(align, enc)
        return self.out(torch.tanh(self.concat(torch.cat((ctx, dec), 2)))), align


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(3, 16, batch_first=True)
        self.decoder = LuongDecoder()

    def forward(self, past, known):
        enc, h = self.encoder(past)
        return self.decoder(known, h, enc)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(14)
        return Seq2Seq().eval()


g = torch.Generator().manual_seed(15)
inputs = (torch.randn(2, 12, 3, generator=g), torch.randn(2, 5, 1, generator=g))
