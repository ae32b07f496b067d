"""German-English translation with nn.Transformer, teacher forcing."""

import math

import torch
from torch import nn

PAD = 0


class Positions(nn.Module):
    def __init__(self, width, limit=60):
        super().__init__()
        freq = torch.exp(-torch.arange(0, width, 2) * math.log(10000) / width)
        angle = torch.arange(limit)[:, None] * freq
        table = torch.stack([angle.sin(), angle.cos()], -1).reshape(limit, width)
        self.register_buffer("table", table)

    def forward(self, emb):
        return emb + self.table[: emb.size(1)]


class Seq2Seq(nn.Module):
    def __init__(self, src_vocab=37, tgt_vocab=41, width=32, heads=4):
        super().__init__()
        self.width = width
        self.transformer = nn.Transformer(
            d_model=width,
            nhead=heads,
            num_encoder_layers=2,
            num_decoder_layers=2,
            dim_feedforward=64,
            dropout=0.0,
            batch_first=True,
        )
        self.src_tok = nn.Embedding(src_vocab, width)
        self.tgt_tok = nn.Embedding(tgt_vocab, width)
        for e in (self.src_tok, self.tgt_tok):
            nn.init.normal_(e.weight, std=width**-0.5)
        self.positions = Positions(width)
        self.generator = nn.Linear(width, tgt_vocab)

    def forward(self, src, tgt):
        n = tgt.size(1)
        tgt_mask = torch.ones(n, n, dtype=torch.bool).triu(1)
        src_emb = self.positions(self.src_tok(src) * math.sqrt(self.width))
        tgt_emb = self.positions(self.tgt_tok(tgt) * math.sqrt(self.width))
        outs = self.transformer(
            src_emb,
            tgt_emb,
            tgt_mask=tgt_mask,
            src_key_padding_mask=src == PAD,
            tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=src == PAD,
        )
        return self.generator(outs)


with torch.random.fork_rng():
    torch.manual_seed(31)
    model = Seq2Seq().eval()
    # nested tensors would drop columns that are padding in every sample
    model.transformer.encoder.use_nested_tensor = False


def inputs():
    g = torch.Generator().manual_seed(10)
    src = torch.randint(1, 37, (3, 14), generator=g)
    tgt = torch.randint(1, 41, (3, 9), generator=g)
    src[1, 8:] = PAD
    src[2, 11:] = PAD
    tgt[0, 6:] = PAD
    return {"src": src, "tgt": tgt}


expect = {"padding": "src pad=0", "causal": True}
