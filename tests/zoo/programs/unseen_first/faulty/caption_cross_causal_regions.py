"""Caption decoder: causal self-attention and masked cross-attention, both on scaled_dot_product_attention."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def sdpa(q, k, v, heads, **kw):
    q, k, v = (t.view(t.size(0), t.size(1), heads, -1).transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, **kw).transpose(1, 2).flatten(2)  # fault: AS212|AS206


class CaptionLayer(nn.Module):
    def __init__(self, d, ctx, heads):
        super().__init__()
        self.heads = heads
        self.sq, self.sk, self.sv, self.so = (nn.Linear(d, d) for _ in range(4))
        self.cq, self.co = nn.Linear(d, d), nn.Linear(d, d)
        self.ck, self.cv = nn.Linear(ctx, d), nn.Linear(ctx, d)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, regions, region_mask):
        y = self.n1(x)
        x = x + self.so(sdpa(self.sq(y), self.sk(y), self.sv(y), self.heads, is_causal=True))
        y = self.n2(x)
        keep = region_mask[:, None, None, :] & torch.ones(x.size(1), regions.size(1)).tril().bool()  # fault: AS212|AS206
        x = x + self.co(sdpa(self.cq(y), self.ck(regions), self.cv(regions), self.heads, attn_mask=keep))  # fault: AS212|AS206
        return x


class CaptionDecoder(nn.Module):
    def __init__(self, vocab=68, d=30, ctx=18, heads=3):
        super().__init__()
        self.word, self.place = nn.Embedding(vocab, d), nn.Embedding(16, d)
        self.layers = nn.ModuleList([CaptionLayer(d, ctx, heads), CaptionLayer(d, ctx, heads)])
        self.vocab = nn.Linear(d, vocab)

    def forward(self, caption, regions, region_mask):
        x = self.word(caption) + self.place.weight[: caption.size(1)]
        for layer in self.layers:
            x = layer(x, regions, region_mask)
        return self.vocab(x)


torch.manual_seed(99)
model = CaptionDecoder().eval()
inputs = {
    "caption": torch.randint(68, (4, 8)),
    "regions": torch.randn(4, 11, 18),
    "region_mask": torch.arange(11) < torch.tensor([[6], [11], [9], [3]]),
}
expect = {"causal": True, "padding": "region_mask keep"}
