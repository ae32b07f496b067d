"""Character.AI-like decoder: multi-query attention, odd layers reuse the keys and values of the layer below."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MQA(nn.Module):
    def __init__(self, d, h, own_kv):
        super().__init__()
        self.h, self.hd = h, d // h
        self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.kv = nn.Linear(d, 2 * self.hd, bias=False) if own_kv else None

    def forward(self, x, shared=None):
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.h, self.hd).transpose(1, 2)
        if self.kv is not None:
            shared = self.kv(x).unsqueeze(1).chunk(2, dim=-1)
        k, v = (s.expand(-1, self.h, -1, -1) for s in shared)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, d)), shared


class SharedKVLM(nn.Module):
    def __init__(self, vocab=95, d=56, h=7, n=4):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.layers = nn.ModuleList(MQA(d, h, own_kv=i % 2 == 0) for i in range(n))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[: ids.shape[1]]
        kv = None
        for n, l in zip(self.norms, self.layers):
            y, kv = l(n(x), kv)
            x = x + y
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(4)
    model = SharedKVLM().eval()
inputs = (torch.randint(0, 95, (3, 12), generator=torch.Generator().manual_seed(4)),)
expect = {"causal": True}
