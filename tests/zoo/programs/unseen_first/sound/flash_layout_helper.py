"""Decoder written against a (batch, seq, heads, dim) kernel interface with an SDPA fallback."""
import torch
import torch.nn.functional as F
from torch import nn


def flash_attn_func(q, k, v, causal=False, softmax_scale=None):
    """q, k, v: (batch, seqlen, nheads, headdim)"""
    out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=causal, scale=softmax_scale)
    return out.transpose(1, 2)


class FlashMHA(nn.Module):
    def __init__(self, embed_dim, num_heads, causal):
        super().__init__()
        self.num_heads, self.causal = num_heads, causal
        self.Wqkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        batch, seqlen, _ = x.shape
        q, k, v = self.Wqkv(x).view(batch, seqlen, 3, self.num_heads, -1).unbind(dim=2)
        context = flash_attn_func(q, k, v, causal=self.causal)
        return self.out_proj(context.flatten(2))


class Tower(nn.Module):
    def __init__(self, vocab=49, dim=40, heads=4):
        super().__init__()
        self.embed, self.pos = nn.Embedding(vocab, dim), nn.Embedding(25, dim)
        self.mixers = nn.ModuleList([FlashMHA(dim, heads, True) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2)])
        self.head = nn.Linear(dim, vocab)

    def forward(self, input_ids):
        hidden = self.embed(input_ids) + self.pos.weight[: input_ids.shape[1]]
        for norm, mixer in zip(self.norms, self.mixers):
            hidden = hidden + mixer(norm(hidden))
        return self.head(hidden)


with torch.random.fork_rng():
    torch.manual_seed(62)
    model = Tower().eval()
    inputs = {"input_ids": torch.randint(49, (3, 11))}
expect = {"causal": True}
