"""Code completion model: one key/value head, prompt visible both ways, suffix causal."""

import torch
from torch import nn
import torch.nn.functional as F


class MultiQueryAttention(nn.Module):
    def __init__(self, d, n_head):
        super().__init__()
        self.n_head, self.d_head = n_head, d // n_head
        self.q = nn.Linear(d, d)
        self.kv = nn.Linear(d, 2 * self.d_head)
        self.o = nn.Linear(d, d)

    def forward(self, x, mask):
        b, t, d = x.shape
        q = self.q(x).view(b, self.n_head, t, self.d_head)  # fault: AS103
        k, v = self.kv(x).split(self.d_head, dim=-1)
        scores = torch.matmul(q, k.unsqueeze(1).transpose(-1, -2)) / self.d_head**0.5
        scores = scores.where(mask, torch.finfo(scores.dtype).min)
        ctx = torch.matmul(F.softmax(scores, dim=-1), v.unsqueeze(1))
        return self.o(ctx.transpose(1, 2).reshape(b, t, d))


class CodeLM(nn.Module):
    def __init__(self, vocab=130, d=56, n_head=7, n_layer=2, ctx=40):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.att = nn.ModuleList(MultiQueryAttention(d, n_head) for _ in range(n_layer))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(n_layer + 1))

    def forward(self, code, prompt_len=6):
        t = code.size(1)
        step = torch.arange(t)
        mask = (step[None, :] <= step[:, None]) | ((step[None, :] < prompt_len) & (step[:, None] < prompt_len))
        h = self.wte(code) + self.wpe(step)
        for ln, att in zip(self.ln, self.att):
            h = h + att(ln(h), mask)
        return self.ln[-1](h) @ self.wte.weight.T


def model():
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return CodeLM().eval()


inputs = {"code": torch.randint(0, 130, (4, 17), generator=torch.Generator().manual_seed(3)), "prompt_len": 6}
expect = {"causal": True, "prefix": "prompt_len"}
# also: AS201
