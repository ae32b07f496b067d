"""Packed SFT batches: block mask from segment ids, additive float mask for the attention layers."""
import torch
from torch import nn


def packed_mask(segment_ids, dtype):
    T = segment_ids.size(-1)
    qi, kj = segment_ids.unsqueeze(-1), segment_ids.unsqueeze(-2)
    same = qi >= kj  # fault: AS209
    tri = torch.tril(torch.ones(T, T, dtype=torch.bool, device=segment_ids.device))
    m = torch.zeros(same.shape, dtype=dtype, device=segment_ids.device)
    return m.masked_fill_(~(same & tri), torch.finfo(dtype).min).unsqueeze(1)


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.dense = nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, s, d = x.shape
        fused = self.query_key_value(x).view(b, s, self.heads, 3, d // self.heads)
        q, k, v = fused[..., 0, :], fused[..., 1, :], fused[..., 2, :]
        att = torch.einsum("bihd,bjhd->bhij", q, k) / (d // self.heads) ** 0.5 + mask
        att = torch.nn.functional.softmax(att, dim=-1, dtype=torch.float32).type_as(q)
        return self.dense(torch.einsum("bhij,bjhd->bihd", att, v).reshape(b, s, d))


class SFTModel(nn.Module):
    def __init__(self, vocab=123, dim=45, heads=5, layers=1):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(64, dim)
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.attn = nn.ModuleList(SelfAttention(dim, heads) for _ in range(layers))
        self.lm = nn.Linear(dim, vocab)

    def forward(self, input_ids, segment_ids, position_ids):
        x = self.embed(input_ids) + self.pos(position_ids)
        mask = packed_mask(segment_ids, x.dtype)
        for ln, a in zip(self.ln, self.attn):
            x = x + a(ln(x), mask)
        return self.lm(x)


torch.manual_seed(27)
model = SFTModel().eval()
inputs = dict(input_ids=torch.randint(0, 123, (2, 14), generator=torch.Generator().manual_seed(27)),
              segment_ids=torch.tensor([[1] * 5 + [2] * 9, [1] * 8 + [2] * 2 + [3] * 4]),
              position_ids=torch.tensor([[*range(5), *range(9)], [*range(8), *range(2), *range(4)]]))
expect = {"documents": "segment_ids"}
