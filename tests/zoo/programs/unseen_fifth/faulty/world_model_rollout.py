"""Token world model for Atari frames; imagination keeps keys and values of past tokens."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Core(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x, past):
        B, T, d = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        S = k.size(2)
        allow = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allow)
        x = x + self.proj(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln2(x)), (k, v)


class WorldModel(nn.Module):
    def __init__(self, vocab=64, d=32, heads=4, depth=2, max_tokens=96):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.pos_emb = nn.Embedding(max_tokens, d)
        self.cores = nn.ModuleList([Core(d, heads) for _ in range(depth)])
        self.ln_f = nn.LayerNorm(d)
        self.head_obs = nn.Linear(d, vocab)

    def forward(self, tokens, past=None):
        T = tokens.size(1)
        x = self.embed(tokens) + self.pos_emb(torch.arange(T, device=tokens.device))  # fault: AS601
        cache = []
        for i, core in enumerate(self.cores):
            x, kv = core(x, None if past is None else past[i])
            cache.append(kv)
        return self.head_obs(self.ln_f(x)), cache


def model():
    with torch.random.fork_rng():
        torch.manual_seed(64)
        return WorldModel().eval()


inputs = {"tokens": torch.randint(0, 64, (2, 10), generator=torch.Generator().manual_seed(65))}
expect = {"causal": True, "cache": "past"}
