"""nn.Transformer translation model, after the official tutorial."""
import math
import torch
import torch.nn as nn

PAD_IDX = 1


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, emb_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_size)
        self.emb_size = emb_size

    def forward(self, tokens):
        return self.embedding(tokens.long()) * math.sqrt(self.emb_size)


class PositionalEncoding(nn.Module):
    def __init__(self, emb_size, maxlen=60):
        super().__init__()
        den = torch.exp(-torch.arange(0, emb_size, 2) * math.log(10000) / emb_size)
        pos = torch.arange(0, maxlen).reshape(maxlen, 1)
        pe = torch.zeros((maxlen, emb_size))
        pe[:, 0::2] = torch.sin(pos * den)
        pe[:, 1::2] = torch.cos(pos * den)
        self.register_buffer("pos_embedding", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pos_embedding[:, : x.size(1)]


class Seq2SeqTransformer(nn.Module):
    def __init__(self, emb=32, nhead=4, src_vocab=40, tgt_vocab=45):
        super().__init__()
        self.transformer = nn.Transformer(emb, nhead, 2, 2, dim_feedforward=48, dropout=0.1, batch_first=True)
        self.generator = nn.Linear(emb, tgt_vocab)
        self.src_tok, self.tgt_tok = TokenEmbedding(src_vocab, emb), TokenEmbedding(tgt_vocab, emb)
        self.pe = PositionalEncoding(emb)

    def forward(self, src, trg):
        src_pad, trg_pad = src == PAD_IDX, trg == PAD_IDX
        tgt_mask = torch.triu(torch.ones(trg.size(1), trg.size(1), dtype=torch.bool), 1)
        outs = self.transformer(
            self.pe(self.src_tok(src)), self.pe(self.tgt_tok(trg)),
            tgt_mask=tgt_mask,
            src_key_padding_mask=src_pad, tgt_key_padding_mask=trg_pad, memory_key_padding_mask=src_pad,
        )
        return self.generator(outs)


torch.manual_seed(1)
model = Seq2SeqTransformer().eval()
_g = torch.Generator().manual_seed(0)
inputs = {"src": torch.randint(2, 40, (2, 9), generator=_g), "trg": torch.randint(2, 45, (2, 7), generator=_g)}
expect = {"causal": True}
