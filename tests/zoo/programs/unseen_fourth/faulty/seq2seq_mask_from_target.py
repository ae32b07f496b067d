"""Homework translation model: nn.Transformer with masks built in a helper."""
import torch
import torch.nn as nn

PAD = 1


def create_masks(src, tgt):
    L = tgt.shape[1]
    tgt_mask = torch.triu(torch.ones(L, L, dtype=torch.bool), diagonal=1)
    src_padding_mask = tgt == PAD  # fault: AS202|AS211|AS208
    tgt_padding_mask = tgt == PAD
    return tgt_mask, src_padding_mask, tgt_padding_mask


class Translator(nn.Module):
    def __init__(self, n_src=50, n_tgt=55, emb=32):
        super().__init__()
        self.src_tok = nn.Embedding(n_src, emb)
        self.tgt_tok = nn.Embedding(n_tgt, emb)
        self.pos = nn.Parameter(torch.randn(40, emb) * .1)
        self.transformer = nn.Transformer(emb, 4, 2, 2, 64, batch_first=True)
        self.generator = nn.Linear(emb, n_tgt)

    def forward(self, src, tgt):
        tm, sp, tp = create_masks(src, tgt)
        s = self.src_tok(src) + self.pos[:src.size(1)]
        t = self.tgt_tok(tgt) + self.pos[:tgt.size(1)]
        return self.generator(self.transformer(s, t, tgt_mask=tm, src_key_padding_mask=sp, tgt_key_padding_mask=tp, memory_key_padding_mask=sp))


def model():
    torch.manual_seed(4)
    return Translator().eval()


_g = torch.Generator().manual_seed(4)
_s, _t = torch.randint(2, 50, (3, 9), generator=_g), torch.randint(2, 55, (3, 9), generator=_g)
_s[0, 4:] = PAD
_s[1, 7:] = PAD
_t[1, 5:] = PAD
_t[2, 8:] = PAD
inputs = {"src": _s, "tgt": _t}
expect = {"padding": "src pad=1"}
# also: AS202 AS212
