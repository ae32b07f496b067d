"""Protein encoder that returns its attention maps for contact prediction."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MapAttention(nn.Module):
    def __init__(self, d=40, heads=4):
        super().__init__()
        self.heads, self.scaling = heads, (d // heads) ** -0.5
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, pad, need_head_weights=True):
        B, T, D = x.shape
        q, k, v = (p(x).view(B, T, self.heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        bias = torch.zeros(B, 1, 1, T).masked_fill(pad[:, None, None], float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        weights = None
        if need_head_weights:
            weights = torch.softmax(q @ k.transpose(-1, -2) * self.scaling + bias, dim=-1)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, D)), weights


class ContactModel(nn.Module):
    def __init__(self, vocab=24, d=40, layers=2):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d, padding_idx=0), nn.Embedding(64, d)
        self.layers = nn.ModuleList([MapAttention(d) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(layers)])

    def forward(self, tokens):
        pad, attentions = tokens.eq(0), []
        x = self.emb(tokens) + self.pos.weight[: tokens.size(1)]
        for l, n in zip(self.layers, self.norms):
            y, w = l(n(x), pad)
            x = x + y
            attentions.append(w)
        return {"representations": x, "attentions": torch.stack(attentions, 1)}


with torch.random.fork_rng():
    torch.manual_seed(100)
    model = ContactModel().eval()
_t = torch.randint(1, 24, (3, 16), generator=torch.Generator().manual_seed(100))
_t[0, 12:] = 0
_t[2, 9:] = 0
inputs = (_t,)
