"""Cross-encoder style reranker block written with bmm and merged batch*heads."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MergedHeadsAttention(nn.Module):
    """(B, L, E) in, (B, L, E) out."""

    def __init__(self, embed_dim=48, n_head=6, attn_pdrop=0.1):
        super().__init__()
        assert embed_dim % n_head == 0
        self.n_head = n_head
        self.hd = embed_dim // n_head
        self.scaling = self.hd ** -0.5
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.attn_pdrop = attn_pdrop

    def _shape(self, t, bsz):
        return t.view(bsz, -1, self.n_head, self.hd).transpose(1, 2).reshape(bsz * self.n_head, -1, self.hd)

    def forward(self, hidden):
        bsz, tgt_len, E = hidden.size()
        q, k, v = self.qkv(hidden).split(E, dim=-1)
        q = self._shape(q * self.scaling, bsz)
        k = self._shape(k, bsz)
        v = self._shape(v, bsz)
        w = torch.bmm(q, k.transpose(1, 2))
        w = F.softmax(w, dim=1)  # fault: AS101
        w = F.dropout(w, p=self.attn_pdrop, training=self.training)
        o = torch.bmm(w, v)
        o = o.view(bsz, self.n_head, tgt_len, self.hd).transpose(1, 2).reshape(bsz, tgt_len, E)
        return self.out_proj(o)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(11)
        return MergedHeadsAttention().eval()
