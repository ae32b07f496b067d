"""Attention decoder over BiGRU states for date normalisation."""
import torch
import torch.nn as nn


class DateNet(nn.Module):
    def __init__(self, v_in=40, v_out=14, hid=24):
        super().__init__()
        self.e_in, self.e_out = nn.Embedding(v_in, hid), nn.Embedding(v_out, hid)
        self.enc = nn.GRU(hid, hid // 2, bidirectional=True, batch_first=True)
        self.dec = nn.GRU(hid, hid, batch_first=True)
        self.wa = nn.Linear(hid, hid, bias=False)
        self.out = nn.Linear(2 * hid, v_out)

    def forward(self, src, trg):
        enc, _ = self.enc(self.e_in(src))
        dec, _ = self.dec(self.e_out(trg))
        score = dec.bmm(self.wa(enc).transpose(1, 2))
        align = torch.softmax(score, dim=2)
        ctx = align.bmm(enc)
        return self.out(torch.cat([dec, ctx], -1))


def model():
    torch.manual_seed(3)
    return DateNet().eval()


_g = torch.Generator().manual_seed(8)
inputs = {"src": torch.randint(0, 40, (3, 13), generator=_g), "trg": torch.randint(0, 14, (3, 7), generator=_g)}
# note: AS301
# note: AS501
