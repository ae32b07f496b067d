"""Flamingo-like gated cross-attention: text reads perceiver latents through a tanh gate."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedXAttn(nn.Module):
    def __init__(self, *, dim, dim_visual, heads=4, dim_head=8):
        super().__init__()
        inner = heads * dim_head
        self.heads = heads
        self.ln = nn.LayerNorm(dim)
        self.ln_media = nn.LayerNorm(dim_visual)
        self.q = nn.Linear(dim, inner, bias=False)
        self.kv = nn.Linear(dim_visual, 2 * inner, bias=False)
        self.o = nn.Linear(inner, dim, bias=False)
        self.gate = nn.Parameter(torch.tensor([0.4]))

    def forward(self, x, media):
        b, l, _ = x.shape
        y, m = self.ln(x), self.ln_media(media)
        q = self.q(y).view(b, l, self.heads, -1).transpose(1, 2)
        k, v = self.kv(m).view(b, -1, 2, self.heads, q.size(-1)).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v)
        return x + self.gate.tanh() * self.o(o.transpose(1, 2).reshape(b, l, -1))


class TextWithImages(nn.Module):
    def __init__(self, vocab=55, dim=32):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.wpe = nn.Embedding(32, dim)
        self.lm = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True, norm_first=True, dropout=0.0)
        self.x = GatedXAttn(dim=dim, dim_visual=dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, media):
        h = self.wte(ids) + self.wpe(torch.arange(ids.size(1)))
        h = self.x(h, media)
        m = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        return self.head(self.lm(h, src_mask=m, is_causal=True))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(71)
        return TextWithImages().eval()


def inputs():
    g = torch.Generator().manual_seed(71)
    return {"ids": torch.randint(0, 55, (2, 11), generator=g), "media": torch.randn(2, 5, 32, generator=g)}
