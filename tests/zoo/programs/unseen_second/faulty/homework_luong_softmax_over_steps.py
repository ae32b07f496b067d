"""Assignment 5: GRU translator with Luong dot attention."""

import torch
import torch.nn as nn


class LuongDecoder(nn.Module):
    def __init__(self, vocab, hidden):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.W = nn.Linear(hidden, hidden, bias=False)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, y, h0, enc_states, enc_mask):
        dec, _ = self.gru(self.embed(y), h0)
        energy = torch.bmm(self.W(dec), enc_states.transpose(1, 2)) / dec.size(-1) ** 0.5
        energy = energy.masked_fill(~enc_mask.unsqueeze(1), -1e9)
        align = energy.softmax(dim=1)  # fault: AS101
        context = torch.bmm(align, enc_states)
        return self.out(torch.tanh(self.combine(torch.cat([context, dec], 2))))


class Translator(nn.Module):
    def __init__(self, src_vocab=45, tgt_vocab=38, hidden=26):
        super().__init__()
        self.embed = nn.Embedding(src_vocab, hidden)
        self.encoder = nn.GRU(hidden, hidden, batch_first=True)
        self.decoder = LuongDecoder(tgt_vocab, hidden)

    def forward(self, x, x_len, y):
        enc, _ = self.encoder(self.embed(x))
        last = enc[torch.arange(x.size(0)), x_len - 1].unsqueeze(0)
        mask = torch.arange(x.size(1)).unsqueeze(0) < x_len.unsqueeze(1)
        return self.decoder(y, last, enc, mask)


torch.manual_seed(6)
model = Translator().eval()
inputs = {
    "x": torch.randint(0, 45, (4, 10)),
    "x_len": torch.tensor([10, 6, 8, 3]),
    "y": torch.randint(0, 38, (4, 7)),
}
expect = {"padding": "x_len lengths", "causal": True}
# also: AS201 AS202
