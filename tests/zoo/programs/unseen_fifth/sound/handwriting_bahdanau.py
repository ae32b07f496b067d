"""Additive attention decoder for handwriting lines, feature lengths respected."""
import torch
import torch.nn as nn


class BahdanauAttention(nn.Module):
    def __init__(self, enc, dec, units):
        super().__init__()
        self.W1 = nn.Linear(enc, units, bias=False)
        self.W2 = nn.Linear(dec, units, bias=False)
        self.V = nn.Linear(units, 1, bias=False)

    def forward(self, values, query, valid):
        score = self.V(torch.tanh(self.W1(values) + self.W2(query)[:, None])).squeeze(-1)
        score.data.masked_fill_(~valid, float('-inf'))
        weights = torch.softmax(score, -1)
        return (weights.unsqueeze(-1) * values).sum(1), weights


class LineReader(nn.Module):
    def __init__(self, cols=16, hid=20, chars=15, steps=5):
        super().__init__()
        self.enc = nn.Linear(cols, 2 * hid)
        self.attn = BahdanauAttention(2 * hid, hid, 18)
        self.cell = nn.LSTMCell(2 * hid + 8, hid)
        self.emb = nn.Embedding(chars, 8)
        self.out = nn.Linear(hid, chars)
        self.steps, self.hid = steps, hid

    def forward(self, columns, lengths, targets):
        enc = torch.tanh(self.enc(columns))
        valid = torch.arange(columns.size(1)) < lengths[:, None]
        h = columns.new_zeros(len(columns), self.hid)
        c = torch.zeros_like(h)
        logits, maps = [], []
        for t in range(targets.size(1)):
            ctx, w = self.attn(enc, h, valid)
            h, c = self.cell(torch.cat([ctx, self.emb(targets[:, t])], -1), (h, c))
            logits.append(self.out(h))
            maps.append(w)
        return torch.stack(logits, 1), torch.stack(maps, 1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(12)
        return LineReader().eval()


def inputs():
    g = torch.Generator().manual_seed(13)
    return {"columns": torch.randn(3, 11, 16, generator=g), "lengths": torch.tensor([11, 6, 8]),
            "targets": torch.randint(0, 15, (3, 5), generator=g)}


expect = {"padding": "lengths lengths"}
