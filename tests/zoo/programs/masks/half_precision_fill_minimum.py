"""Half-precision export of a small causal attention layer."""

import torch
from torch import nn


class HalfAttention(nn.Module):
    def __init__(self, dim=32, heads=2, max_len=20):
        super().__init__()
        self.heads = heads
        self.wqkv = nn.Linear(dim, dim * 3, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.register_buffer("allowed", torch.ones(max_len, max_len, dtype=torch.bool).tril())

    def forward(self, x):
        bsz, seqlen, dim = x.shape
        q, k, v = self.wqkv(x).view(bsz, seqlen, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q / (dim // self.heads) ** 0.5) @ k.transpose(2, 3)
        scores = scores.masked_fill(~self.allowed[:seqlen, :seqlen], torch.finfo(scores.dtype).min)
        probs = scores.float().softmax(-1).type_as(scores)
        return self.wo((probs @ v).transpose(1, 2).reshape(bsz, seqlen, dim))


with torch.random.fork_rng():
    torch.manual_seed(37)
    model = HalfAttention().half().eval()

inputs = torch.randn(3, 9, 32, generator=torch.Generator().manual_seed(37)).half()
