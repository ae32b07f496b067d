"""German to English with nn.Transformer, as in the translation tutorial."""


import torch
import torch.nn as nn

PAD_IDX = 1


def create_mask(src, tgt):
    tgt_len = tgt.shape[0]
    tgt_mask = torch.triu(torch.ones((tgt_len, tgt_len), dtype=torch.bool), diagonal=1)
    src_padding_mask = (src == PAD_IDX).transpose(0, 1)
    tgt_padding_mask = (tgt == PAD_IDX).transpose(0, 1)
    return tgt_mask, src_padding_mask, tgt_padding_mask


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size, emb_size, maxlen=100):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_size)
        self.position = nn.Embedding(maxlen, emb_size)
        self.emb_size = emb_size

    def forward(self, tokens):
        steps = torch.arange(tokens.size(0), device=tokens.device)
        return self.embedding(tokens) + self.position(steps).unsqueeze(1)


class Seq2SeqTransformer(nn.Module):
    def __init__(self, src_vocab=71, tgt_vocab=59, emb_size=32, nhead=4):
        super().__init__()
        self.src_tok_emb = TokenEmbedding(src_vocab, emb_size)
        self.tgt_tok_emb = TokenEmbedding(tgt_vocab, emb_size)
        self.transformer = nn.Transformer(emb_size, nhead, 2, 2, dim_feedforward=64, dropout=0.1)
        self.generator = nn.Linear(emb_size, tgt_vocab)

    def forward(self, src, trg):
        tgt_mask, src_pad, tgt_pad = create_mask(src, trg)
        outs = self.transformer(  # fault: AS202
            self.src_tok_emb(src),
            self.tgt_tok_emb(trg),
            tgt_mask=tgt_mask,
            src_key_padding_mask=src_pad,
            tgt_key_padding_mask=tgt_pad,
        )
        return self.generator(outs)


torch.manual_seed(0)
model = Seq2SeqTransformer()
model.eval()

src = torch.randint(4, 71, (13, 5))
trg = torch.randint(4, 59, (8, 5))
for column, length in enumerate((13, 6, 10, 4, 12)):
    src[length:, column] = PAD_IDX
for column, length in enumerate((8, 8, 5, 6, 7)):
    trg[length:, column] = PAD_IDX
inputs = {"src": src, "trg": trg}
expect = {"causal": True, "padding": "src pad=1", "batch_axis": 1, "sequence_axis": 0}
