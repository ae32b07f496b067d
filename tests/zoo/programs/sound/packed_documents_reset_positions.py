"""Pre-training on packed documents: block-diagonal causal mask, positions start anew in each document."""

import torch
import torch.nn.functional as F
from torch import nn


def document_mask(doc_ids):
    n = doc_ids.shape[1]
    same = doc_ids[:, :, None] == doc_ids[:, None, :]
    return same & torch.ones(n, n, dtype=torch.bool, device=doc_ids.device).tril()


def positions_in_document(doc_ids):
    n = doc_ids.shape[1]
    idx = torch.arange(n, device=doc_ids.device).expand_as(doc_ids)
    start = torch.ones_like(doc_ids, dtype=torch.bool)
    start[:, 1:] = doc_ids[:, 1:] != doc_ids[:, :-1]
    return idx - torch.where(start, idx, 0).cummax(dim=1).values


class PackedBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.up, self.down = nn.Linear(d, 3 * d), nn.Linear(3 * d, d)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.h, -1).transpose(1, 2) for t in self.qkv(self.n1(x)).split(d, -1))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])
        x = x + self.o(a.transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class PackedLM(nn.Module):
    def __init__(self, vocab=73, d=36, h=3, layers=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.blocks = nn.ModuleList(PackedBlock(d, h) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, input_ids, doc_ids):
        mask = document_mask(doc_ids)
        x = self.tok(input_ids) + self.pos(positions_in_document(doc_ids))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


with torch.random.fork_rng():
    torch.manual_seed(51)
    model = PackedLM().eval()

inputs = {
    "input_ids": torch.randint(0, 73, (2, 16), generator=torch.Generator().manual_seed(52)),
    "doc_ids": torch.tensor([[0] * 5 + [1] * 7 + [2] * 4, [0] * 9 + [1] * 7]),
}
expect = {"causal": True, "documents": "doc_ids"}
