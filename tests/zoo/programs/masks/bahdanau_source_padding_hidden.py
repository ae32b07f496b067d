"""Recurrent translator with Bahdanau attention over source states."""
import torch
from torch import nn

class Bahdanau(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.Wa = nn.Linear(d, d)
        self.Ua = nn.Linear(d, d)
        self.Va = nn.Linear(d, 1)

    def forward(self, query, keys, src_mask):
        scores = self.Va(torch.tanh(self.Wa(query).unsqueeze(1) + self.Ua(keys)))
        scores = scores.squeeze(2).unsqueeze(1)
        scores = scores.masked_fill(~src_mask[:, None], -1e9)
        weights = torch.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights

class Seq2Seq(nn.Module):
    def __init__(self, vocab=40, d=20):
        super().__init__()
        self.src = nn.Embedding(vocab, d, padding_idx=0)
        self.tgt = nn.Embedding(vocab, d)
        self.enc = nn.GRU(d, d, batch_first=True)
        self.cell = nn.GRUCell(2 * d, d)
        self.att = Bahdanau(d)
        self.head = nn.Linear(2 * d, vocab)

    def forward(self, src, tgt):
        src_mask = src != 0
        keys, _ = self.enc(self.src(src))
        h = (keys * src_mask[..., None]).sum(1) / src_mask.sum(1, keepdim=True)
        outs = []
        for t in range(tgt.size(1)):
            ctx, _ = self.att(h, keys, src_mask)
            h = self.cell(torch.cat((self.tgt(tgt[:, t]), ctx.squeeze(1)), -1), h)
            outs.append(self.head(torch.cat((h, ctx.squeeze(1)), -1)))
        return torch.stack(outs, 1)

with torch.random.fork_rng():
    torch.manual_seed(0)
    model = Seq2Seq().eval()
g = torch.Generator().manual_seed(3)
src = torch.randint(1, 40, (3, 9), generator=g)
src[1, 6:] = 0
src[2, 4:] = 0
inputs = {"src": src, "tgt": torch.randint(1, 40, (3, 5), generator=g)}

