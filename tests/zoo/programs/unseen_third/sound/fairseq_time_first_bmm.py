"""fairseq-like attention, (time, batch, channel), heads folded into the batch."""
import torch
from torch import nn
import torch.nn.functional as F


class MultiheadAttention(nn.Module):
    def __init__(self, embed_dim=30, num_heads=3, dropout=0.1):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.dropout_p = dropout
        self.k_proj, self.v_proj, self.q_proj, self.out_proj = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def forward(self, query, key_padding_mask=None):
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query) * self.scaling
        k, v = self.k_proj(query), self.v_proj(query)
        q, k, v = (t.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1) for t in (q, k, v))
        w = torch.bmm(q, k.transpose(1, 2))
        if key_padding_mask is not None:
            w = w.view(bsz, self.num_heads, tgt_len, -1).masked_fill(key_padding_mask[:, None, None].to(torch.bool), float("-inf"))
            w = w.view(bsz * self.num_heads, tgt_len, -1)
        probs = F.dropout(F.softmax(w.float(), dim=-1).type_as(w), p=self.dropout_p, training=self.training)
        a = torch.bmm(probs, v).transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        return self.out_proj(a)


torch.manual_seed(0)
model = MultiheadAttention().eval()
inputs = {"query": torch.randn(9, 4, 30, generator=torch.Generator().manual_seed(0)), "key_padding_mask": (torch.arange(9)[None] >= torch.tensor([9, 6, 7, 3])[:, None])}
expect = {"batch_axis": 1, "sequence_axis": 0, "padding": "key_padding_mask drop"}
