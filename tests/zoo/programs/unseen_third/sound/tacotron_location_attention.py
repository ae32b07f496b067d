"""Tacotron 2 decoder step loop with location-sensitive additive attention (cumulative weights through a convolution)."""
import torch
import torch.nn as nn


class LocationAttention(nn.Module):
    def __init__(self, rnn=24, emb=32, att=16):
        super().__init__()
        self.query_layer, self.memory_layer = nn.Linear(rnn, att, bias=False), nn.Linear(emb, att, bias=False)
        self.v = nn.Linear(att, 1, bias=False)
        self.location_conv, self.location_dense = nn.Conv1d(2, 4, 5, padding=2, bias=False), nn.Linear(4, att, bias=False)
        self.score_mask_value = -float("inf")

    def forward(self, hidden, memory, processed, cat, mask):
        loc = self.location_dense(self.location_conv(cat).transpose(1, 2))
        e = self.v(torch.tanh(self.query_layer(hidden.unsqueeze(1)) + loc + processed)).squeeze(-1)
        e = e.masked_fill(mask, self.score_mask_value)
        w = torch.softmax(e, dim=1)
        return torch.bmm(w.unsqueeze(1), memory).squeeze(1), w


class Decoder(nn.Module):
    def __init__(self, vocab=30, emb=32, rnn=24, mels=8):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.att, self.cell, self.proj = LocationAttention(rnn, emb), nn.LSTMCell(mels + emb, rnn), nn.Linear(rnn + emb, mels)
        self.rnn = rnn

    def forward(self, text, mels):
        memory, mask = self.emb(text), text == 0
        processed = self.att.memory_layer(memory)
        b, t, _ = memory.shape
        w = cum = memory.new_zeros(b, t)
        ctx, hc, outs = memory.new_zeros(b, memory.size(2)), (memory.new_zeros(b, self.rnn),) * 2, []
        for i in range(mels.size(1)):
            hc = self.cell(torch.cat([mels[:, i], ctx], -1), hc)
            ctx, w = self.att(hc[0], memory, processed, torch.stack([w, cum], 1), mask)
            cum = cum + w
            outs.append(self.proj(torch.cat([hc[0], ctx], -1)))
        return torch.stack(outs, 1)


with torch.random.fork_rng():
    torch.manual_seed(32)
    model = Decoder().eval()
_t = torch.randint(1, 30, (3, 9), generator=torch.Generator().manual_seed(32))
_t[1, 6:] = 0
inputs = (_t, torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(33)))
