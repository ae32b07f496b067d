"""NLP course homework: LSTM encoder-decoder with Luong dot attention, batch second."""
import torch
import torch.nn as nn


class AttnDecoder(nn.Module):
    def __init__(self, vocab=35, h=32):
        super().__init__()
        self.embedding, self.enc, self.dec = nn.Embedding(vocab, h), nn.LSTM(h, h), nn.LSTM(h, h)
        self.W, self.concat, self.out = nn.Linear(h, h, bias=False), nn.Linear(2 * h, h), nn.Linear(h, vocab)

    def forward(self, src, trg):
        enc, state = self.enc(self.embedding(src))  # (S, B, H)
        dec, _ = self.dec(self.embedding(trg), state)  # (T, B, H)
        energy = torch.bmm(dec.transpose(0, 1), self.W(enc).permute(1, 2, 0))  # (B, T, S)
        energy = energy.masked_fill((src.t() == 0).unsqueeze(1), -1e10)
        weights = torch.softmax(energy, dim=2)
        context = torch.bmm(weights, enc.transpose(0, 1)).transpose(0, 1)
        return self.out(torch.tanh(self.concat(torch.cat([context, dec], dim=2)))), weights


# note: AS301
with torch.random.fork_rng():
    torch.manual_seed(52)
    model = AttnDecoder().eval()
_s = torch.randint(1, 35, (9, 4), generator=torch.Generator().manual_seed(52))
inputs = (_s, torch.randint(1, 35, (6, 4), generator=torch.Generator().manual_seed(53)))
