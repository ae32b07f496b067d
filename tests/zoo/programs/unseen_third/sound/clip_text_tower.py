"""CLIP text tower (length, batch, width): causal mask, features taken at the end-of-text token."""
from collections import OrderedDict

import torch
import torch.nn as nn


class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class ResidualAttentionBlock(nn.Module):
    def __init__(self, d_model, n_head, attn_mask=None):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_head)
        self.ln_1, self.ln_2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(OrderedDict([("c_fc", nn.Linear(d_model, d_model * 4)), ("gelu", QuickGELU()), ("c_proj", nn.Linear(d_model * 4, d_model))]))
        self.attn_mask = attn_mask

    def attention(self, x):
        self.attn_mask = self.attn_mask.to(dtype=x.dtype, device=x.device) if self.attn_mask is not None else None
        return self.attn(x, x, x, need_weights=False, attn_mask=self.attn_mask)[0]

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class TextTower(nn.Module):
    def __init__(self, context=14, vocab=60, width=32, heads=4, layers=2, out=20):
        super().__init__()
        mask = torch.empty(context, context).fill_(float("-inf")).triu_(1)
        self.token_embedding, self.positional_embedding = nn.Embedding(vocab, width), nn.Parameter(torch.randn(context, width) * 0.01)
        self.resblocks = nn.Sequential(*[ResidualAttentionBlock(width, heads, mask) for _ in range(layers)])
        self.ln_final, self.text_projection = nn.LayerNorm(width), nn.Parameter(torch.randn(width, out) * width**-0.5)

    def forward(self, text):
        x = self.token_embedding(text) + self.positional_embedding
        x = self.resblocks(x.permute(1, 0, 2)).permute(1, 0, 2)
        x = self.ln_final(x)
        return x[torch.arange(x.shape[0]), text.argmax(dim=-1)] @ self.text_projection


with torch.random.fork_rng():
    torch.manual_seed(43)
    model = TextTower().eval()
_t = torch.randint(1, 58, (3, 14), generator=torch.Generator().manual_seed(43))
_t[0, 6:], _t[1, 9:], _t[2, 13:] = 0, 0, 0
_t[0, 6], _t[1, 9], _t[2, 13] = 59, 59, 59
inputs = (_t,)
