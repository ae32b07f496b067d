"""Translator on nn.Transformer with padding masks on both sides."""
import torch
from torch import nn


class Translator(nn.Module):
    PAD = 1

    def __init__(self, src_vocab=60, tgt_vocab=50, emb=36, heads=6):
        super().__init__()
        self.src_emb = nn.Embedding(src_vocab, emb)
        self.tgt_emb = nn.Embedding(tgt_vocab, emb)
        self.pos = nn.Embedding(40, emb)
        self.transformer = nn.Transformer(emb, heads, 1, 2, 48, dropout=0.0, batch_first=True)
        self.generator = nn.Linear(emb, tgt_vocab)

    def forward(self, src, tgt):
        src_pad, tgt_pad = src == self.PAD, tgt == self.PAD
        n = tgt.shape[1]
        tgt_mask = torch.ones(n, n, dtype=torch.bool).triu(1)
        s = self.src_emb(src) + self.pos(torch.arange(src.shape[1]))
        t = self.tgt_emb(tgt) + self.pos(torch.arange(n))
        out = self.transformer(  # fault: AS202
            s,
            t,
            tgt_mask=tgt_mask,
            src_key_padding_mask=src_pad,
            tgt_key_padding_mask=tgt_pad,
        )
        return self.generator(out)


torch.manual_seed(15)
model = Translator().eval()
_src = torch.randint(2, 60, (3, 12))
_tgt = torch.randint(2, 50, (3, 9))
_src[0, 8:] = 1
_src[2, 10:] = 1
inputs = {"src": _src, "tgt": _tgt}
expect = {"causal": True, "padding": "src pad=1"}
