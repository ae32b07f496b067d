"""Grouped-query block written with explicit group axes and a learned absolute position."""
import torch
from torch import nn


class GroupedQuery(nn.Module):
    def __init__(self, num_query_heads=8, num_kv_heads=2, d=56):
        super().__init__()
        self.nq, self.nkv = num_query_heads, num_kv_heads
        self.hd = d // num_query_heads
        self.wq = nn.Linear(d, d)
        self.wk = nn.Linear(d, self.hd * num_kv_heads)
        self.wv = nn.Linear(d, self.hd * num_kv_heads)
        self.wo = nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q = self.wq(x).view(b, n, self.nq, self.hd).transpose(1, 2)
        k = self.wk(x).repeat_interleave(self.nq // self.nkv, dim=1).view(b, self.nq, n, self.hd)  # fault: AS103|AS104
        v = self.wv(x).repeat_interleave(self.nq // self.nkv, dim=1).view(b, self.nq, n, self.hd)  # fault: AS103|AS104
        causal = torch.triu(torch.full((n, n), float("-inf")), diagonal=1)
        scores = torch.einsum("bhnd,bhmd->bhnm", q, k).div(self.hd**0.5).add(causal)
        return self.wo(torch.einsum("bhnm,bhmd->bnhd", scores.softmax(-1), v).reshape(b, n, d))


torch.manual_seed(90)
model = GroupedQuery().eval()
inputs = torch.randn(3, 10, 56)
# also: AS201
expect = {"causal": True}
