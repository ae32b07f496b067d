"""Generalist agent: interleaved observation and action tokens, next-token loss computed inside."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MultiHead(nn.Module):
    def __init__(self, dim, heads, max_len):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.register_buffer("causal", torch.tril(torch.ones(max_len, max_len, dtype=torch.bool)))

    def forward(self, x):
        b, t, d = x.shape
        qkv = self.qkv(x).chunk(3, -1)
        q, k, v = (z.view(b, t, self.heads, d // self.heads).transpose(1, 2) for z in qkv)
        sim = (q @ k.transpose(-1, -2)) * (d // self.heads) ** -0.5
        attn = sim.softmax(-1)  # fault: AS201
        return self.proj((attn @ v).transpose(1, 2).contiguous().view(b, t, d))


class Gato(nn.Module):
    def __init__(self, vocab=64, dim=32, depth=2, max_len=48):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)
        self.att = nn.ModuleList([MultiHead(dim, 4, max_len) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth + 1)])
        self.out = nn.Linear(dim, vocab)

    def forward(self, tokens, is_action):
        x = self.emb(tokens) + self.pos(torch.arange(tokens.size(1), device=tokens.device))
        for a, n in zip(self.att, self.ln):
            x = x + a(n(x))
        logits = self.out(self.ln[-1](x))
        ce = F.cross_entropy(logits[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="none")
        return logits, (ce * is_action[:, 1:]).sum() / is_action[:, 1:].sum()


# also: AS903
with torch.random.fork_rng():
    torch.manual_seed(122)
    model = Gato().eval()
inputs = {"tokens": torch.randint(0, 64, (2, 18), generator=torch.Generator().manual_seed(122)), "is_action": (torch.arange(18) % 3 == 2).float().expand(2, -1)}
expect = {"causal": True}
