"""Teaching notebook: encoder-decoder with one MHA class and positional arguments."""
import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, model_dim=32, n_heads=4):
        super().__init__()
        self.n_heads = n_heads
        self.proj = nn.ModuleDict({n: nn.Linear(model_dim, model_dim) for n in ("k", "q", "v", "o")})

    def forward(self, keys, queries, values, mask=None):
        def split(name, t):
            return self.proj[name](t).unflatten(-1, (self.n_heads, -1)).movedim(-2, 1)

        k, q, v = split("k", keys), split("q", queries), split("v", values)
        s = torch.einsum("bhqd,bhkd->bhqk", q, k) / k.shape[-1] ** 0.5
        if mask is not None:
            s = s + mask
        w = torch.softmax(s, dim=-1)
        return self.proj["o"](torch.einsum("bhqk,bhkd->bqhd", w, v).flatten(2))


class Notebook(nn.Module):
    def __init__(self, src_vocab=41, tgt_vocab=43, d=32):
        super().__init__()
        self.src, self.tgt, self.pos = nn.Embedding(src_vocab, d), nn.Embedding(tgt_vocab, d), nn.Embedding(30, d)
        self.enc_self, self.dec_self, self.dec_cross = MHA(d), MHA(d), MHA(d)
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(3))
        self.out = nn.Linear(d, tgt_vocab)

    def forward(self, src, tgt):
        memory = self.src(src) + self.pos.weight[: src.size(1)]
        memory = self.ln[0](memory + self.enc_self(memory, memory, memory))
        y = self.tgt(tgt) + self.pos.weight[: tgt.size(1)]
        causal = torch.full((tgt.size(1), tgt.size(1)), -1e9).triu(1)
        y = self.ln[1](y + self.dec_self(y, y, y, causal))
        y = self.ln[2](y + self.dec_cross(y, y, y, causal))  # fault: AS107|AS208
        return self.out(y)


torch.manual_seed(0)
model = Notebook().eval()
_g = torch.Generator().manual_seed(0)
inputs = {"src": torch.randint(0, 41, (2, 9), generator=_g), "tgt": torch.randint(0, 43, (2, 6), generator=_g)}
# also: AS903, AS902
