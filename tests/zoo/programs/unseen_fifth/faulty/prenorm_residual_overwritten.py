"""Pre-norm GPT block for SQL generation, residual handled in place."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SqlBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.norm_a, self.norm_m = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, d * 3)
        self.o = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, d * 2), nn.GELU(), nn.Linear(d * 2, d))

    def attend(self, x):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.qkv(x).tensor_split(3, dim=-1))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = self.norm_a(x)  # fault: AS904
        x = x + self.attend(x)  # fault: AS904
        x = x + self.mlp(self.norm_m(x))
        return x


class SqlLM(nn.Module):
    def __init__(self, vocab=111, d=48, h=4, n=3):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.blocks = nn.ModuleList(SqlBlock(d, h) for _ in range(n))
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe.weight[: ids.size(1)]
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x))


with torch.random.fork_rng():
    torch.manual_seed(904)
    model = SqlLM().eval()
inputs = (torch.randint(0, 111, (2, 12), generator=torch.Generator().manual_seed(904)),)
