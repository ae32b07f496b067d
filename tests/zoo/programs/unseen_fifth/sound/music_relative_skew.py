"""Music transformer: relative attention with the skewing trick, strictly causal."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class RelativeGlobalAttention(nn.Module):
    def __init__(self, d, num_heads, max_len=64):
        super().__init__()
        self.num_heads, self.max_len = num_heads, max_len
        self.key, self.value, self.query, self.out = (nn.Linear(d, d) for _ in range(4))
        self.Er = nn.Parameter(torch.randn(max_len, d // num_heads) * 0.1)
        self.register_buffer("mask", torch.tril(torch.ones(max_len, max_len))[None, None])

    def forward(self, x):
        B, T, d = x.shape
        q = self.query(x).reshape(B, T, self.num_heads, -1).transpose(1, 2)
        k_t = self.key(x).reshape(B, T, self.num_heads, -1).permute(0, 2, 3, 1)
        v = self.value(x).reshape(B, T, self.num_heads, -1).transpose(1, 2)
        Srel = self.skew(torch.matmul(q, self.Er[self.max_len - T:, :].transpose(0, 1)))
        attn = (torch.matmul(q, k_t) + Srel) / math.sqrt(q.size(-1))
        attn = attn.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        out = torch.matmul(F.softmax(attn, dim=-1), v).transpose(1, 2).reshape(B, T, -1)
        return self.out(out)

    def skew(self, QEr):
        padded = F.pad(QEr, (1, 0))
        B, H, r, c = padded.shape
        return padded.reshape(B, H, c, r)[:, :, 1:, :]


class MusicTransformer(nn.Module):
    def __init__(self, vocab=48, d=32, heads=4, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.att = nn.ModuleList(RelativeGlobalAttention(d, heads) for _ in range(layers))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, d)) for _ in range(layers))
        self.out = nn.Linear(d, vocab)

    def forward(self, events):
        x = self.emb(events)
        for a, n, f in zip(self.att, self.ln, self.ff):
            x = x + a(n(x))
            x = x + f(x)
        return self.out(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(6)
        return MusicTransformer().eval()


inputs = {"events": torch.randint(0, 48, (2, 15), generator=torch.Generator().manual_seed(7))}
expect = {"causal": True}
