"""Captioning model: prefix-LM mask built for nn.TransformerEncoder, then handed to F.scaled_dot_product_attention."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def prefix_lm_mask(prefix, total):
    blocked = torch.triu(torch.ones(total, total), diagonal=1).bool()
    blocked[:, :prefix] = False
    return blocked


class Layer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.ln, self.qkv, self.o = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln(x)).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # fault: AS205
        return x + self.o(y.transpose(1, 2).reshape(b, t, d))


class Captioner(nn.Module):
    def __init__(self, vocab=45, d=32):
        super().__init__()
        self.vis, self.tok, self.pos = nn.Linear(18, d), nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.layers = nn.ModuleList([Layer(d, 4), Layer(d, 4)])
        self.head = nn.Linear(d, vocab)

    def forward(self, image, caption):
        x = torch.cat([self.vis(image), self.tok(caption)], 1)
        x = x + self.pos.weight[: x.size(1)]
        m = prefix_lm_mask(image.size(1), x.size(1))
        for l in self.layers:
            x = l(x, m)
        return self.head(x[:, image.size(1) :])


# also: AS201 AS203 AS212
with torch.random.fork_rng():
    torch.manual_seed(121)
    model = Captioner().eval()
_g = torch.Generator().manual_seed(121)
inputs = {"image": torch.randn(2, 5, 18, generator=_g), "caption": torch.randint(0, 45, (2, 9), generator=_g)}
