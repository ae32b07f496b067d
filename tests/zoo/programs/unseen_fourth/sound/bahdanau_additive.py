"""Additive attention speller over BiLSTM states, loop over output steps."""
import torch
import torch.nn as nn


class Speller(nn.Module):
    def __init__(self, feat=12, vocab=28, hid=24):
        super().__init__()
        self.enc = nn.LSTM(feat, hid // 2, bidirectional=True, batch_first=True)
        self.emb, self.cell = nn.Embedding(vocab, hid), nn.LSTMCell(2 * hid, hid)
        self.wq, self.wk, self.v = nn.Linear(hid, hid), nn.Linear(hid, hid, bias=False), nn.Linear(hid, 1, bias=False)
        self.out = nn.Linear(2 * hid, vocab)

    def forward(self, audio, audio_len, letters):
        mem, _ = self.enc(audio)
        keep = torch.arange(mem.size(1))[None] < audio_len[:, None]
        key = self.wk(mem)
        h = c = mem.new_zeros(mem.size(0), mem.size(2))
        ctx, logits = h, []
        for t in range(letters.size(1)):
            h, c = self.cell(torch.cat([self.emb(letters[:, t]), ctx], -1), (h, c))
            e = self.v(torch.tanh(self.wq(h)[:, None] + key)).squeeze(-1)
            a = e.masked_fill(~keep, float("-inf")).softmax(-1)
            ctx = torch.bmm(a[:, None], mem).squeeze(1)
            logits.append(self.out(torch.cat([h, ctx], -1)))
        return torch.stack(logits, 1)


def model():
    torch.manual_seed(3)
    return Speller().eval()


_g = torch.Generator().manual_seed(3)
inputs = {"audio": torch.randn(2, 14, 12, generator=_g), "audio_len": torch.tensor([14, 14]), "letters": torch.randint(0, 28, (2, 5), generator=_g)}
# note: AS501
