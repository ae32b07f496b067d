"""Chunked prefill with a manual tril buffer and tuple caches."""
import torch
import torch.nn as nn


class Attn(nn.Module):
    def __init__(self, d=32, h=4, ctx=64):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.register_buffer("tri", torch.tril(torch.ones(ctx, ctx)).bool(), persistent=False)

    def forward(self, x, layer_past=None, use_cache=True):
        sh = lambda t: t.view(t.size(0), t.size(1), self.h, -1).permute(0, 2, 1, 3)  # noqa: E731
        q, k, v = sh(self.q(x)), sh(self.k(x)), sh(self.v(x))
        if layer_past is not None:
            k = torch.cat((layer_past[0], k), dim=-2)
            v = torch.cat((layer_past[1], v), dim=-2)
        nd, ns = q.size(-2), k.size(-2)
        w = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        w = torch.where(self.tri[:nd, :ns], w, torch.tensor(-1e4))  # fault: AS206
        y = w.softmax(-1) @ v
        return self.o(y.permute(0, 2, 1, 3).reshape(x.shape)), (k, v)


class CachedGPT(nn.Module):
    def __init__(self, vocab=57, d=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.ln, self.attn, self.lm = nn.LayerNorm(d), Attn(d), nn.Linear(d, vocab)

    def forward(self, input_ids, past_key_values=None):
        n0 = past_key_values[0].size(-2) if past_key_values is not None else 0
        h = self.wte(input_ids) + self.wpe(torch.arange(n0, n0 + input_ids.size(-1)))
        a, present = self.attn(self.ln(h), past_key_values)
        return self.lm(h + a), present


torch.manual_seed(0)
model = CachedGPT().eval()
expect = {"cache": "past_key_values"}
# also: AS601, AS201
