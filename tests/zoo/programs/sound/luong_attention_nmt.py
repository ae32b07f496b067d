"""Luong attention over an LSTM encoder, dot product without a scale, lengths given."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class LuongAttention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.W_a = nn.Linear(hidden, hidden, bias=False)
        self.W_c = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, decoder, encoder, lengths):
        score = torch.bmm(decoder, self.W_a(encoder).transpose(1, 2))
        outside = torch.arange(encoder.size(1), device=encoder.device)[None] >= lengths[:, None]
        score = score.masked_fill(outside.unsqueeze(1), -float("inf"))
        align = F.softmax(score, dim=2)
        context = torch.bmm(align, encoder)
        return torch.tanh(self.W_c(torch.cat([context, decoder], dim=2))), align


class Seq2Seq(nn.Module):
    def __init__(self, src_vocab=37, tgt_vocab=42, emb=18, hidden=26):
        super().__init__()
        self.src_emb, self.tgt_emb = nn.Embedding(src_vocab, emb), nn.Embedding(tgt_vocab, emb)
        self.encoder = nn.LSTM(emb, hidden, batch_first=True)
        self.decoder = nn.LSTM(emb, hidden, batch_first=True)
        self.attention = LuongAttention(hidden)
        self.out = nn.Linear(hidden, tgt_vocab)

    def forward(self, src, src_lengths, tgt):
        packed = nn.utils.rnn.pack_padded_sequence(
            self.src_emb(src), src_lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        enc, state = self.encoder(packed)
        enc, _ = nn.utils.rnn.pad_packed_sequence(enc, batch_first=True, total_length=src.size(1))
        dec, _ = self.decoder(self.tgt_emb(tgt), state)
        attended, align = self.attention(dec, enc, src_lengths)
        return self.out(attended), align


with torch.random.fork_rng():
    torch.manual_seed(119)
    model = Seq2Seq().eval()

_g = torch.Generator().manual_seed(120)
inputs = {
    "src": torch.randint(1, 37, (3, 12), generator=_g),
    "src_lengths": torch.tensor([12, 8, 5]),
    "tgt": torch.randint(1, 42, (3, 7), generator=_g),
}
expect = {"padding": "src_lengths lengths"}
# note: AS301
