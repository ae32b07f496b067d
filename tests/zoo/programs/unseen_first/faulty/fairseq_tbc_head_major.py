"""Time-first multi-head attention in the fairseq manner, with a per-sentence self-attention mask."""
import torch
from torch import Tensor, nn


class MultiheadAttention(nn.Module):
    def __init__(self, embed_dim: int, num_heads: int):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, query: Tensor, key_padding_mask: Tensor) -> Tensor:
        """query: T x B x C, key_padding_mask: B x T, True for padding symbols"""
        tgt_len, bsz, embed_dim = query.size()
        q = self.q_proj(query) * self.scaling
        k = self.k_proj(query)
        v = self.v_proj(query)
        q = q.contiguous().view(bsz * self.num_heads, tgt_len, self.head_dim)  # fault: AS103
        k = k.contiguous().view(bsz * self.num_heads, -1, self.head_dim)  # fault: AS103
        v = v.contiguous().view(bsz * self.num_heads, -1, self.head_dim)  # fault: AS103
        src_len = k.size(1)

        attn_weights = torch.bmm(q, k.transpose(1, 2))
        mask = key_padding_mask.unsqueeze(1).repeat_interleave(self.num_heads, dim=0)
        attn_weights = attn_weights.masked_fill(mask, float("-inf"))
        attn_weights = torch.softmax(attn_weights, dim=-1)
        attn = torch.bmm(attn_weights, v)
        attn = attn.transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        assert attn_weights.size(2) == src_len
        return self.out_proj(attn)


def build():
    with torch.random.fork_rng():
        torch.manual_seed(21)
        return MultiheadAttention(32, 4).eval()


model = build
pad = torch.zeros(3, 9, dtype=torch.bool)
pad[0, 7:] = True
pad[2, 4:] = True
inputs = {"query": torch.randn(9, 3, 32, generator=torch.Generator().manual_seed(8)), "key_padding_mask": pad}
# also: AS102|AS202
expect = {"batch_axis": 1, "sequence_axis": 0, "padding": "key_padding_mask drop"}
