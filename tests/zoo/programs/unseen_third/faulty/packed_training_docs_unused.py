"""Pretraining model for packed samples (several documents per row)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PackedBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.ln1, self.ln2 = h, nn.LayerNorm(d), nn.LayerNorm(d)
        self.in_proj, self.out_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))

    def forward(self, x, mask):
        B, L, D = x.shape
        qkv = self.in_proj(self.ln1(x)).reshape(B, L, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        ctx = F.scaled_dot_product_attention(*qkv.unbind(0), attn_mask=mask)  # fault: AS209
        x = x + self.out_proj(ctx.transpose(1, 2).reshape(B, L, D))
        return x + self.fc(self.ln2(x))


class PackedLM(nn.Module):
    def __init__(self, vocab=101, d=44, h=4, n=2, ctx=64):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.blocks = nn.ModuleList(PackedBlock(d, h) for _ in range(n))
        self.lm_head = nn.Linear(d, vocab)

    @staticmethod
    def positions(doc_ids):
        L = doc_ids.size(1)
        idx = torch.arange(L).expand_as(doc_ids)
        new = torch.cat([torch.ones_like(doc_ids[:, :1]), (doc_ids[:, 1:] != doc_ids[:, :-1]).long()], 1)
        return idx - torch.cummax(idx * new, dim=1).values

    def forward(self, input_ids, doc_ids):
        L = input_ids.size(1)
        x = self.tok(input_ids) + self.pos(self.positions(doc_ids))
        causal = torch.ones(L, L, dtype=torch.bool).tril()
        mask = causal[None, None]  # fault: AS209
        for blk in self.blocks:
            x = blk(x, mask)
        return self.lm_head(x)


torch.manual_seed(77)
model = PackedLM().eval()
inputs = {
    "input_ids": torch.randint(0, 101, (2, 14), generator=torch.Generator().manual_seed(1)),
    "doc_ids": torch.tensor([[0] * 5 + [1] * 9, [0] * 3 + [1] * 4 + [2] * 7]),
}
expect = {"causal": True, "documents": "doc_ids"}
