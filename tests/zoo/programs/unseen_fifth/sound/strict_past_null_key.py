"""Knowledge tracing model: each step looks at strictly earlier steps, a learned null key serves the first one."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class StrictPast(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.null_k, self.null_v = nn.Parameter(torch.randn(d) * 0.1), nn.Parameter(torch.zeros(d))

    def forward(self, query, seq):
        b, t, d = query.shape
        pre = lambda n: n.expand(b, 1, d)
        q = self.q(query).view(b, t, self.h, -1).transpose(1, 2)
        k = torch.cat([pre(self.null_k), self.k(seq)], 1).view(b, t + 1, self.h, -1).transpose(1, 2)
        v = torch.cat([pre(self.null_v), self.v(seq)], 1).view(b, t + 1, self.h, -1).transpose(1, 2)
        keep = torch.ones(t, t + 1, dtype=torch.bool, device=query.device).tril()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.o(y.transpose(1, 2).reshape(b, t, d))


class Tracer(nn.Module):
    def __init__(self, n_ex=70, d=32, h=4):
        super().__init__()
        self.ex, self.inter, self.pos = nn.Embedding(n_ex, d), nn.Embedding(2 * n_ex, d), nn.Embedding(50, d)
        self.attn, self.ln, self.out, self.n_ex = StrictPast(d, h), nn.LayerNorm(d), nn.Linear(d, 1), n_ex

    def forward(self, exercise, correct):
        p = self.pos.weight[: exercise.size(1)]
        e = self.ex(exercise) + p
        s = self.inter(exercise + self.n_ex * correct) + p
        return torch.sigmoid(self.out(self.ln(e + self.attn(e, s)))).squeeze(-1)


torch.manual_seed(18)
model = Tracer().eval()
_g = torch.Generator().manual_seed(18)
inputs = {"exercise": torch.randint(0, 70, (3, 10), generator=_g), "correct": torch.randint(0, 2, (3, 10), generator=_g)}
