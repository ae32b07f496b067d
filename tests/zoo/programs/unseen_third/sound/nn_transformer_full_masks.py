"""nn.Transformer with every mask, (length, batch) token tensors."""
import torch
import torch.nn as nn


class MT(nn.Module):
    def __init__(self, vs=40, vt=46, d=32):
        super().__init__()
        self.es, self.et, self.pos = nn.Embedding(vs, d, padding_idx=0), nn.Embedding(vt, d, padding_idx=0), nn.Embedding(40, d)
        self.tf = nn.Transformer(d, 4, 1, 2, 64)
        self.gen = nn.Linear(d, vt)

    def add_pos(self, e):
        return e + self.pos.weight[: e.size(0), None]

    def forward(self, src, tgt):
        sp, tp = (src == 0).T, (tgt == 0).T
        causal = torch.triu(torch.ones(tgt.size(0), tgt.size(0), dtype=torch.bool), 1)
        o = self.tf(self.add_pos(self.es(src)), self.add_pos(self.et(tgt)), tgt_mask=causal,
                    src_key_padding_mask=sp, tgt_key_padding_mask=tp, memory_key_padding_mask=sp)
        return self.gen(o)


torch.manual_seed(0)
model = MT().eval()
_g = torch.Generator().manual_seed(0)
_s, _t = torch.randint(1, 40, (9, 3), generator=_g), torch.randint(1, 46, (7, 3), generator=_g)
_s[6:, 1], _t[5:, 2] = 0, 0
inputs = {"src": _s, "tgt": _t}
expect = {"batch_axis": 1, "sequence_axis": 0, "causal": True}
