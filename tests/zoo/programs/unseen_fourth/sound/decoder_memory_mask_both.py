"""nn.TransformerDecoder with every mask given, True means hidden."""
import torch
import torch.nn as nn


class DocTranslator(nn.Module):
    def __init__(self, vs=60, vt=64, d=32):
        super().__init__()
        self.s, self.t = nn.Embedding(vs, d, padding_idx=0), nn.Embedding(vt, d, padding_idx=0)
        self.ps, self.pt = nn.Embedding(40, d), nn.Embedding(40, d)
        self.net = nn.Transformer(d, 4, 1, 2, 48, dropout=0., batch_first=True, norm_first=True)
        self.out = nn.Linear(d, vt)

    def forward(self, src, tgt):
        sp, tp = src.eq(0), tgt.eq(0)
        n = tgt.size(1)
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        y = self.net(self.s(src) + self.ps.weight[:src.size(1)], self.t(tgt) + self.pt.weight[:n], tgt_mask=future, src_key_padding_mask=sp, tgt_key_padding_mask=tp, memory_key_padding_mask=sp)
        return self.out(y)


def model():
    torch.manual_seed(16)
    return DocTranslator().eval()


_g = torch.Generator().manual_seed(16)
_s, _t = torch.randint(1, 60, (3, 11), generator=_g), torch.randint(1, 64, (3, 7), generator=_g)
_s[0, 8:] = 0
_t[2, 5:] = 0
inputs = {"src": _s, "tgt": _t}
expect = {"causal": True, "padding": "src pad=0"}
