"""Streaming transducer encoder with dynamic chunks: a frame sees its own chunk and two chunks to the left."""
import torch
import torch.nn as nn


def subsequent_chunk_mask(size, chunk, left):
    ret = torch.zeros(size, size, dtype=torch.bool)
    for i in range(size):
        start = max((i // chunk - left) * chunk, 0)
        ret[i, start : min((i // chunk + 1) * chunk, size)] = True
    return ret


class Enc(nn.Module):
    def __init__(self, feats=12, d=32, h=4):
        super().__init__()
        self.embed, self.pos = nn.Linear(feats, d), nn.Parameter(torch.randn(60, d) * 0.2)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(d, h, 64, batch_first=True, norm_first=True) for _ in range(2)])

    def forward(self, xs, xs_lens):
        t = xs.size(1)
        x = self.embed(xs) + self.pos[:t]
        ok = subsequent_chunk_mask(t, 4, 2)
        pad = torch.arange(t)[None] >= xs_lens[:, None]
        for l in self.layers:
            x = l(x, src_mask=~ok, src_key_padding_mask=pad)
            x = torch.nan_to_num(x)
        return x


with torch.random.fork_rng():
    torch.manual_seed(64)
    model = Enc().eval()
inputs = {"xs": torch.randn(2, 18, 12, generator=torch.Generator().manual_seed(64)), "xs_lens": torch.tensor([18, 14])}
expect = {"padding": "xs_lens lengths"}
