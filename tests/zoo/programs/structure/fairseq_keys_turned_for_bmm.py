"""Attention with heads folded into the batch, as in old sequence toolkits."""
import torch
from torch import nn
import torch.nn.functional as F

class FoldedAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query):
        tgt_len, bsz, embed_dim = query.size()
        q, k, v = self.in_proj(query).chunk(3, dim=-1)
        q = q * self.scaling
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.transpose(1, 2)
        w = torch.bmm(q, k)
        w = F.softmax(w, dim=-1)
        attn = torch.bmm(w, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(attn)

with torch.random.fork_rng():
    torch.manual_seed(3)
    model = FoldedAttention(24, 3).eval()
inputs = torch.randn(16, 2, 24, generator=torch.Generator().manual_seed(4))
expect = {"batch_axis": 1, "sequence_axis": 0}
