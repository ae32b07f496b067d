"""A transducer-like text decoder, fairseq layout (T, B, C), one attention layer."""

import torch
from torch import nn


class IncrementalAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def shape(self, t, bsz):
        return t.contiguous().view(-1, bsz * self.num_heads, self.head_dim).transpose(0, 1)

    def forward(self, query, incremental_state=None):
        tgt_len, bsz, embed_dim = query.size()
        q = self.shape(self.q_proj(query) * self.head_dim**-0.5, bsz)
        k = self.shape(self.k_proj(query), bsz)
        v = self.shape(self.v_proj(query), bsz)
        new_state = {"prev_key": k, "prev_value": v}  # fault: AS601
        if incremental_state is not None:
            k = torch.cat([incremental_state["prev_key"], k], dim=1)
            v = torch.cat([incremental_state["prev_value"], v], dim=1)
        src_len = k.size(1)
        attn_weights = torch.bmm(q, k.transpose(1, 2))
        future = torch.full((tgt_len, src_len), float("-inf")).triu(1 + src_len - tgt_len)
        attn_probs = torch.softmax(attn_weights + future, dim=-1)
        attn = torch.bmm(attn_probs, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(attn), new_state


with torch.random.fork_rng():
    torch.manual_seed(76)
    model = IncrementalAttention(32, 4).eval()

inputs = {"query": torch.randn(9, 2, 32, generator=torch.Generator().manual_seed(76))}
expect = {"causal": True, "cache": "incremental_state", "sequence_axis": 0, "batch_axis": 1}
