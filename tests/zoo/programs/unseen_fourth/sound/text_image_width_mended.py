"""Text conditioned image block: keys from a text encoder of another width."""
import torch
import torch.nn as nn


class CrossAttn(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=4, dim_head=8):
        super().__init__()
        inner = heads * dim_head
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim or query_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim or query_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, query_dim)

    def forward(self, x, context=None):
        context = x if context is None else context
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.to_q(x), self.to_k(context), self.to_v(context)))
        o = torch.softmax(q @ k.mT * q.size(-1) ** -.5, -1) @ v
        return self.to_out(o.transpose(1, 2).flatten(2))


class TextBlock(nn.Module):
    def __init__(self, ch=24, ctx=40):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(ch), nn.LayerNorm(ch)
        self.attn1 = CrossAttn(ch)
        self.attn2 = CrossAttn(ch, ctx)

    def forward(self, fmap, text_emb):
        b, c, h, w = fmap.shape
        x = fmap.flatten(2).mT
        x = x + self.attn1(self.n1(x))
        x = x + self.attn2(self.n2(x), text_emb)
        return x.mT.reshape(b, c, h, w)


def model():
    torch.manual_seed(19)
    return TextBlock().eval()


_g = torch.Generator().manual_seed(19)
inputs = {"fmap": torch.randn(2, 24, 5, 6, generator=_g), "text_emb": torch.randn(2, 7, 40, generator=_g)}
# note: AS501
