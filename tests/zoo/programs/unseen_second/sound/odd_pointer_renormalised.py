"""Pointer-generator attention: softmax, mask, then divide by what is left."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class PointerAttention(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.W_h = nn.Linear(hidden, hidden, bias=False)
        self.W_s = nn.Linear(hidden, hidden)
        self.hidden = hidden

    def forward(self, s_t, enc, enc_padding_mask):
        e = torch.bmm(self.W_s(s_t), self.W_h(enc).transpose(1, 2)) / self.hidden**0.5
        attn_ = F.softmax(e, dim=2) * enc_padding_mask.unsqueeze(1)
        attn = attn_ / attn_.sum(2, keepdim=True)
        return torch.bmm(attn, enc), attn


class Summariser(nn.Module):
    def __init__(self, vocab=66, hidden=26):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.enc, self.dec = nn.GRU(hidden, hidden, batch_first=True), nn.GRU(hidden, hidden, batch_first=True)
        self.attn, self.out = PointerAttention(hidden), nn.Linear(2 * hidden, vocab)

    def forward(self, article, article_mask, summary):
        enc, _ = self.enc(self.embed(article))
        dec, _ = self.dec(self.embed(summary))
        ctx, attn = self.attn(dec, enc, article_mask)
        p = F.softmax(self.out(torch.cat([dec, ctx], -1)), -1)
        return p.scatter_add(2, article.unsqueeze(1).expand_as(attn), attn)


torch.manual_seed(16)
model = Summariser().eval()
m = (torch.arange(15)[None] < torch.tensor([[15], [9], [12], [6]])).float()
inputs = {"article": torch.randint(0, 66, (4, 15)), "article_mask": m, "summary": torch.randint(0, 66, (4, 7))}
expect = {"padding": "article_mask keep", "causal": True}
