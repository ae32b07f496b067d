"""Perplexity filter: causal LM whose values carry a log-frequency feature per token; right-padded batches."""
# also: AS801 AS802
import torch
import torch.nn as nn
import torch.nn.functional as F


class FreqAttention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k = nn.Linear(d, d), nn.Linear(d, d)
        self.v, self.o = nn.Linear(d, d - 1), nn.Linear(d, d)

    def forward(self, x, log_freq):
        b, t, d = x.shape
        v = torch.cat([self.v(x), log_freq[..., None]], dim=-1)
        q, k, v = (y.view(b, t, self.h, d // self.h).transpose(1, 2) for y in (self.q(x), self.k(x), v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault: AS801|AS802
        return self.o(y.transpose(1, 2).reshape(b, t, d))


class PerplexityFilter(nn.Module):
    def __init__(self, vocab=60, d=32, h=2, ctx=1024):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        counts = torch.randint(1, 900, (vocab,), generator=torch.Generator().manual_seed(0)).float()
        counts[0] = 0                                      # the pad id never occurs
        self.register_buffer("log_freq", torch.log(counts / counts.sum()))  # fault: AS801|AS802
        self.attn, self.ln, self.head = FreqAttention(d, h), nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[: ids.size(1)]
        x = x + self.attn(self.ln(x), self.log_freq[ids])
        return self.head(x)


torch.manual_seed(801)
model = PerplexityFilter().eval()
_ids = torch.randint(1, 60, (1, 700), generator=torch.Generator().manual_seed(801))
_ids[:, 520:] = 0
inputs = (_ids,)
