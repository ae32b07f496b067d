"""Post-norm encoder-decoder with DeepNorm residual factors and tied embeddings."""
import torch
import torch.nn as nn
import torch.nn.functional as F

ALPHA, BETA = 1.4, 0.7


def mha(q_in, kv_in, wq, wk, wv, wo, h, mask=None, causal=False):
    split = lambda y: y.unflatten(-1, (h, -1)).transpose(1, 2)
    y = F.scaled_dot_product_attention(split(wq(q_in)), split(wk(kv_in)), split(wv(kv_in)), attn_mask=mask, is_causal=causal)
    return wo(y.transpose(1, 2).flatten(2))


class Sub(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))
        for w in (self.wv, self.wo):
            nn.init.xavier_normal_(w.weight, gain=BETA)
        self.norm = nn.LayerNorm(d)

    def forward(self, x, mem, h, mask=None, causal=False):
        return self.norm(ALPHA * x + mha(x, mem, self.wq, self.wk, self.wv, self.wo, h, mask, causal))


class DeepNormMT(nn.Module):
    def __init__(self, vocab=160, d=40, h=4):
        super().__init__()
        self.h = h
        self.shared = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(64, d)
        self.enc = nn.ModuleList([Sub(d), Sub(d)])
        self.dec_self, self.dec_cross = Sub(d), Sub(d)

    def forward(self, src, tgt):
        keep = src.ne(0)[:, None, None, :]
        s = self.shared(src) + self.pos.weight[: src.size(1)]
        for e in self.enc:
            s = e(s, s, self.h, mask=keep)
        t = self.shared(tgt) + self.pos.weight[: tgt.size(1)]
        t = self.dec_self(t, t, self.h, causal=True)
        t = self.dec_cross(t, s, self.h, mask=keep)
        return F.linear(t, self.shared.weight)


with torch.random.fork_rng():
    torch.manual_seed(25)
    model = DeepNormMT().eval()
_g = torch.Generator().manual_seed(25)
_src = torch.randint(1, 160, (3, 13), generator=_g)
_src[1, 8:] = 0
inputs = {"src": _src, "tgt": torch.randint(1, 160, (3, 9), generator=_g)}
expect = {"causal": True, "padding": "src pad=0"}
