"""MSA transformer: row attention tied over the sequences, scores summed over rows and scaled for their number."""
import torch
import torch.nn as nn


class RowSelfAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        rows, cols, b, d = x.shape
        q, k, v = (p(x).view(rows, cols, b, self.h, -1) for p in (self.q_proj, self.k_proj, self.v_proj))
        q = q * ((d // self.h) ** -0.5 / rows**0.5)
        w = torch.einsum("rinhd,rjnhd->hnij", q, k).softmax(-1)
        return self.out_proj(torch.einsum("hnij,rjnhd->rinhd", w, v).reshape(rows, cols, b, d))


class MSALayer(nn.Module):
    def __init__(self, d=32, vocab=22):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.ln, self.row = nn.LayerNorm(d), RowSelfAttention(d)

    def forward(self, msa):
        x = self.tok(msa) + self.pos.weight[: msa.size(-1)]
        x = x.permute(1, 2, 0, 3)
        x = x + self.row(self.ln(x))
        return x.permute(2, 0, 1, 3)


with torch.random.fork_rng():
    torch.manual_seed(37)
    model = MSALayer().eval()
inputs = (torch.randint(0, 22, (2, 5, 13), generator=torch.Generator().manual_seed(37)),)
