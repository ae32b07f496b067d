"""Translation with nn.Transformer, source and target padded, memory mask handed over too."""

import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size, maxlen=60):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        table = torch.zeros((maxlen, emb_size))
        table[:, 0::2] = torch.sin(pos * den)
        table[:, 1::2] = torch.cos(pos * den)
        self.register_buffer("table", table.unsqueeze(-2))

    def forward(self, x):
        return x + self.table[: x.size(0), :]


class Seq2SeqTransformer(nn.Module):
    """Everything is (time, batch) here, as in the tutorial."""

    def __init__(self, src_vocab=38, tgt_vocab=41, emb=24, nhead=3, pad=0):
        super().__init__()
        self.pad, self.emb = pad, emb
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(emb, nhead, 48), 2, norm=nn.LayerNorm(emb), enable_nested_tensor=False
        )
        self.transformer = nn.Transformer(
            d_model=emb, nhead=nhead, num_decoder_layers=2, dim_feedforward=48, custom_encoder=encoder
        )
        self.src_tok, self.tgt_tok = nn.Embedding(src_vocab, emb), nn.Embedding(tgt_vocab, emb)
        self.positional_encoding = PositionalEncoding(emb)
        self.generator = nn.Linear(emb, tgt_vocab)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, src, tgt):
        n = tgt.shape[0]
        tgt_mask = torch.ones(n, n, dtype=torch.bool, device=tgt.device).triu(1)
        src_pad = (src == self.pad).transpose(0, 1)
        tgt_pad = (tgt == self.pad).transpose(0, 1)
        src_emb = self.positional_encoding(self.src_tok(src) * math.sqrt(self.emb))
        tgt_emb = self.positional_encoding(self.tgt_tok(tgt) * math.sqrt(self.emb))
        outs = self.transformer(
            src_emb,
            tgt_emb,
            tgt_mask=tgt_mask,
            src_key_padding_mask=src_pad,
            tgt_key_padding_mask=tgt_pad,
            memory_key_padding_mask=src_pad,
        )
        return self.generator(outs)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(20)
        return Seq2SeqTransformer().eval()


def inputs():
    g = torch.Generator().manual_seed(21)
    src = torch.randint(1, 38, (12, 3), generator=g)
    tgt = torch.randint(1, 41, (9, 3), generator=g)
    src[8:, 1], src[6:, 2], tgt[5:, 2] = 0, 0, 0
    return {"src": src, "tgt": tgt}


expect = {"causal": True, "padding": "src pad=0", "batch_axis": 1, "sequence_axis": 0}
