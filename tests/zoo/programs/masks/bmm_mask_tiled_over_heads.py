"""Transformer encoder layer with heads folded into the batch for torch.bmm."""

import torch
import torch.nn as nn


class FoldedAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.w_qs, self.w_ks, self.w_vs = (nn.Linear(d_model, d_model) for _ in range(3))
        self.fc = nn.Linear(d_model, d_model)

    def fold(self, x):
        b, n, d = x.size()
        return x.view(b, n, self.n_head, d // self.n_head).permute(0, 2, 1, 3).reshape(b * self.n_head, n, -1)

    def forward(self, x, mask):
        b, n, d = x.size()
        q, k, v = self.fold(self.w_qs(x)), self.fold(self.w_ks(x)), self.fold(self.w_vs(x))
        attn = torch.bmm(q, k.transpose(1, 2)) / (d // self.n_head) ** 0.5
        mask = mask.repeat(self.n_head, 1, 1)  # fault: AS211
        attn = attn.masked_fill(mask, -1e9).softmax(dim=2)
        out = torch.bmm(attn, v).view(b, self.n_head, n, -1).permute(0, 2, 1, 3).reshape(b, n, d)
        return self.fc(out)


class ReviewEncoder(nn.Module):
    def __init__(self, vocab=73, d_model=40, n_head=5, stars=5):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model, padding_idx=0)
        self.pos = nn.Embedding(25, d_model)
        self.slf_attn = FoldedAttention(d_model, n_head)
        self.layer_norm = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, stars)

    def forward(self, seq):
        pad = seq.eq(0).unsqueeze(1).expand(-1, seq.size(1), -1)
        x = self.emb(seq) + self.pos(torch.arange(seq.size(1)))
        x = self.layer_norm(x + self.slf_attn(x, pad))
        return self.out(x[:, 0])


# also: AS102 AS202 AS212
with torch.random.fork_rng():
    torch.manual_seed(55)
    model = ReviewEncoder().eval()


def inputs():
    s = torch.randint(1, 73, (4, 11), generator=torch.Generator().manual_seed(55))
    for i, n in enumerate((11, 4, 8, 6)):
        s[i, n:] = 0
    return {"seq": s}


expect = {"padding": "seq pad=0"}
