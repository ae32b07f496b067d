"""Reformer-like LM: queries and keys share one projection, keys are normalised, self is a last resort."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SharedQK(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.toqk, self.tov, self.to_out = (nn.Linear(dim, dim, bias=False) for _ in range(3))

    def forward(self, x):
        b, t, d = x.shape
        qk = self.toqk(x).view(b, t, self.heads, -1).transpose(1, 2)
        v = self.tov(x).view(b, t, self.heads, -1).transpose(1, 2)
        k = F.normalize(qk, p=2, dim=-1)
        dot = torch.einsum("bhie,bhje->bhij", qk, k) * (d // self.heads) ** -0.5
        i = torch.arange(t, device=x.device)
        dot = dot.masked_fill(i[:, None] == i[None, :], -5e4)
        dot = dot.masked_fill(i[:, None] < i[None, :], float("-inf"))
        return self.to_out((dot.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class ReformerLM(nn.Module):
    def __init__(self, num_tokens=92, dim=44, heads=4, depth=2):
        super().__init__()
        self.token_emb, self.pos_emb = nn.Embedding(num_tokens, dim), nn.Embedding(64, dim)
        self.layers = nn.ModuleList(nn.ModuleList([nn.LayerNorm(dim), SharedQK(dim, heads)]) for _ in range(depth))
        self.to_logits = nn.Linear(dim, num_tokens)

    def forward(self, ids):
        x = self.token_emb(ids) + self.pos_emb.weight[: ids.size(1)]
        for n, a in self.layers:
            x = x + a(n(x))
        return self.to_logits(x)


with torch.random.fork_rng():
    torch.manual_seed(21)
    model = ReformerLM().eval()
inputs = (torch.randint(0, 92, (3, 13), generator=torch.Generator().manual_seed(21)),)
expect = {"causal": True}
