"""Caption model: image tokens in front may see each other, caption tokens are causal; softcap and learned sink."""
import torch
import torch.nn as nn


class SinkAttention(nn.Module):
    def __init__(self, d, heads, kv_heads, softcap=20.0):
        super().__init__()
        self.heads, self.kv, self.hd, self.softcap = heads, kv_heads, d // heads, softcap
        self.q_proj = nn.Linear(d, d, bias=False)
        self.k_proj = nn.Linear(d, kv_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(d, kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(d, d, bias=False)
        self.sinks = nn.Parameter(torch.zeros(heads))

    def forward(self, x, allowed):
        B, T, d = x.shape
        g = self.heads // self.kv
        q = self.q_proj(x).view(B, T, self.kv, g, self.hd)
        k = self.k_proj(x).view(B, T, self.kv, self.hd)
        v = self.v_proj(x).view(B, T, self.kv, self.hd)
        s = torch.einsum("btkgd,bskd->bkgts", q, k) * self.hd ** -0.5
        s = self.softcap * torch.tanh(s / self.softcap)
        s = s.masked_fill(~allowed, torch.finfo(s.dtype).min)
        sink = self.sinks.view(1, self.kv, g, 1, 1).expand(B, -1, -1, T, 1)
        w = torch.cat([s, sink], -1).softmax(-1)[..., :-1]
        return self.o_proj(torch.einsum("bkgts,bskd->btkgd", w, v).reshape(B, T, d))


class Captioner(nn.Module):
    def __init__(self, d=40, vocab=30, heads=4, kv_heads=2):
        super().__init__()
        self.img, self.tok = nn.Linear(10, d), nn.Embedding(vocab, d)
        self.pos = nn.Embedding(64, d)
        self.layers = nn.ModuleList(SinkAttention(d, heads, kv_heads) for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(d) for _ in range(2))
        self.out = nn.Linear(d, vocab)

    def forward(self, image, caption):
        P = image.size(1)
        x = torch.cat([self.img(image), self.tok(caption)], 1)
        x = x + self.pos.weight[: x.size(1)]
        i = torch.arange(x.size(1))
        allowed = (i[None] <= i[:, None]) | (i[None] < P)
        for a, n in zip(self.layers, self.norms):
            x = x + a(n(x), allowed)
        return self.out(x[:, P:])


def model():
    with torch.random.fork_rng():
        torch.manual_seed(67)
        return Captioner().eval()


g = torch.Generator().manual_seed(68)
inputs = {"image": torch.randn(2, 6, 10, generator=g), "caption": torch.randint(0, 30, (2, 7), generator=g)}
