"""Time-first decoder (T, B, C) with a dataclass for what it keeps."""
from dataclasses import dataclass, field
import torch
from torch import nn


@dataclass
class DecodeState:
    keys: list = field(default_factory=list)
    values: list = field(default_factory=list)
    length: int = 0


class Layer(nn.Module):
    def __init__(self, dim, nh):
        super().__init__()
        self.nh = nh
        self.in_proj, self.out_proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, state, i):
        T, B, C = x.shape
        q, k, v = self.in_proj(self.norm(x)).chunk(3, dim=-1)
        if state is not None:
            if len(state.keys) > i:
                k = torch.cat([state.keys[i], k], dim=0)
                v = torch.cat([v, state.values[i]], dim=0)  # fault: AS601
                state.keys[i], state.values[i] = k, v
            else:
                state.keys.append(k)
                state.values.append(v)
        S = k.shape[0]
        hd = C // self.nh
        q = q.contiguous().view(T, B * self.nh, hd).transpose(0, 1)
        k = k.contiguous().view(S, B * self.nh, hd).transpose(0, 1)
        v = v.contiguous().view(S, B * self.nh, hd).transpose(0, 1)
        a = torch.bmm(q, k.transpose(1, 2)) * hd ** -0.5
        a = a + torch.full((T, S), float("-inf")).triu(S - T + 1).to(a)
        o = torch.bmm(a.softmax(dim=-1), v).transpose(0, 1).reshape(T, B, C)
        return x + self.out_proj(o)


class TimeFirst(nn.Module):
    def __init__(self, vocab=39, dim=30, nh=3, depth=2):
        super().__init__()
        self.embed, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(32, dim)
        self.stack = nn.ModuleList(Layer(dim, nh) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, tokens, state: DecodeState | None = None):
        T = tokens.shape[0]
        start = 0 if state is None else state.length
        x = self.embed(tokens) + self.wpe(torch.arange(start, start + T))[:, None]
        state = state if state is not None else DecodeState()
        for i, layer in enumerate(self.stack):
            x = layer(x, state, i)
        state.length += T
        return self.head(x), state


torch.manual_seed(8)
model = TimeFirst().eval()
inputs = (torch.randint(0, 39, (11, 3)),)
expect = {"causal": True, "cache": "state", "batch_axis": 1, "sequence_axis": 0}
