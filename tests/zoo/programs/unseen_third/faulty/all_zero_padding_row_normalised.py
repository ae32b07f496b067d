"""Cosine attention on word vectors, padding vector is zero."""
import torch
import torch.nn as nn


class CosineWords(nn.Module):
    def __init__(self, vocab=48, d=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        self.wq, self.wk, self.wv = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, d)
        self.tau = nn.Parameter(torch.tensor(6.0))

    def forward(self, ids):
        x = self.emb(ids)
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        q = q / q.norm(dim=-1, keepdim=True)  # fault: AS802
        k = k / k.norm(dim=-1, keepdim=True)  # fault: AS802
        s = self.tau * q @ k.transpose(1, 2)
        s = s.masked_fill((ids == 0)[:, None, :], -1e9)
        return s.softmax(-1) @ v


torch.manual_seed(0)
model = CosineWords().eval()
_ids = torch.randint(1, 48, (2, 9), generator=torch.Generator().manual_seed(0))
_ids[1, 6:] = 0
inputs = {"ids": _ids}
expect = {"padding": "ids pad=0"}
# also: AS902
