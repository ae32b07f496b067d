"""Translation model with incremental decoding in the style of fairseq."""
import math
import torch
from torch import nn


class MHA(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def split(self, t):
        return t.view(t.size(0), t.size(1), self.h, -1).transpose(1, 2)

    def forward(self, x, memory=None, mask=None, state=None):
        q = self.split(self.wq(x))
        if memory is not None and state is not None and "prev_key" in state:
            k, v = state["prev_key"], state["prev_value"]
        else:
            src = x if memory is None else memory
            k, v = self.split(self.wk(src)), self.split(self.wv(src))
            if memory is None and state is not None and "prev_key" in state:
                k = torch.cat([state["prev_key"], k], 2)
                v = torch.cat([state["prev_value"], v], 2)
        if state is not None:
            state["prev_key"], state["prev_value"] = k, v
        w = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        if mask is not None:
            w = w.masked_fill(mask, float("-inf"))
        y = torch.softmax(w, -1) @ v
        return self.wo(y.transpose(1, 2).flatten(2))


class Seq2Seq(nn.Module):
    def __init__(self, vocab=44, d=32, h=4):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(50, d)
        self.enc, self.self_attn, self.cross = MHA(d, h), MHA(d, h), MHA(d, h)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(d) for _ in range(3))
        self.out = nn.Linear(d, vocab)

    def forward(self, src, tgt, incremental_state=None):
        m = self.emb(src) + self.pos(torch.arange(src.size(1)))
        m = m + self.enc(self.n1(m))
        state = incremental_state if incremental_state is not None else {"self": {}, "cross": {}}
        past = state["self"]["prev_key"].size(2) if "prev_key" in state["self"] else 0
        t = tgt.size(1)
        y = self.emb(tgt) + self.pos(torch.arange(past, past + t))
        future = torch.ones(t, past + t).triu(1).bool()  # fault: AS601|AS206
        y = y + self.self_attn(self.n2(y), mask=future, state=state["self"])
        y = y + self.cross(self.n3(y), memory=m, state=state["cross"])
        return self.out(y), state


torch.manual_seed(6)
model = Seq2Seq().eval()
inputs = {"src": torch.randint(0, 44, (2, 7)), "tgt": torch.randint(0, 44, (2, 10))}
expect = {"causal": True, "cache": "incremental_state"}
