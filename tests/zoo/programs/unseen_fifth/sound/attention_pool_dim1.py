"""Document classifier with additive attention pooling: one score per token, softmax over the tokens (dim 1)."""
import torch
import torch.nn as nn


class AttnPool(nn.Module):
    def __init__(self, d, a):
        super().__init__()
        self.proj, self.ctx = nn.Linear(d, a), nn.Linear(a, 1, bias=False)

    def forward(self, h, mask):
        u = self.ctx(torch.tanh(self.proj(h)))                    # (B, T, 1)
        u = u.masked_fill(~mask.unsqueeze(-1), float("-inf"))
        a = torch.softmax(u, dim=1)
        return (a * h).sum(1), a.squeeze(-1)


class DocClassifier(nn.Module):
    def __init__(self, vocab=270, d=32, classes=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        self.pos = nn.Embedding(60, d)
        self.enc = nn.MultiheadAttention(d, 4, batch_first=True)
        self.norm, self.pool, self.out = nn.LayerNorm(d), AttnPool(d, 20), nn.Linear(d, classes)

    def forward(self, ids):
        keep = ids.ne(0)
        x = self.emb(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        x = self.norm(x + self.enc(x, x, x, key_padding_mask=~keep, need_weights=False)[0])
        doc, _ = self.pool(x, keep)
        return self.out(doc)


torch.manual_seed(14)
model = DocClassifier().eval()
_i = torch.randint(1, 270, (3, 14), generator=torch.Generator().manual_seed(14))
_i[0, 9:] = 0
_i[1, 12:] = 0
inputs = {"ids": _i}
expect = {"padding": "ids pad=0"}
