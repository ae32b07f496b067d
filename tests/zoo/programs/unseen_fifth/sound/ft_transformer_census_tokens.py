"""FT-Transformer for census income: every column becomes a token."""
import torch
from torch import nn


class FeatureTokenizer(nn.Module):
    def __init__(self, n_num, cardinalities, d):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_num, d) * 0.1)
        self.bias = nn.Parameter(torch.randn(n_num, d) * 0.1)
        self.cat = nn.ModuleList([nn.Embedding(c, d) for c in cardinalities])

    def forward(self, x_num, x_cat):
        num = x_num[..., None] * self.weight + self.bias
        cat = torch.stack([e(x_cat[:, i]) for i, e in enumerate(self.cat)], dim=1)
        return torch.cat([num, cat], dim=1)


class Block(nn.Module):
    def __init__(self, d, heads, p):
        super().__init__()
        self.attention = nn.MultiheadAttention(d, heads, dropout=p, batch_first=True)
        self.ln1 = nn.LayerNorm(d)
        self.ln2 = nn.LayerNorm(d)
        self.lin1, self.lin2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.p = p

    def forward(self, tokens):
        y = self.ln1(tokens)
        y, _ = self.attention(y, y, y)
        tokens = tokens + y
        y = self.lin2(nn.functional.dropout(nn.functional.relu(self.lin1(self.ln2(tokens))), self.p, self.training))
        return tokens + y


class FTTransformer(nn.Module):
    def __init__(self, n_num=4, cardinalities=(3, 5, 7), d=24, heads=3, n_blocks=2):
        super().__init__()
        self.tokenizer = FeatureTokenizer(n_num, cardinalities, d)
        self.blocks = nn.ModuleList([Block(d, heads, 0.2) for _ in range(n_blocks)])
        self.head = nn.Sequential(nn.LayerNorm(d), nn.ReLU(), nn.Linear(d, 1))

    def forward(self, x_num, x_cat):
        t = self.tokenizer(x_num, x_cat)
        for b in self.blocks:
            t = b(t)
        return self.head(t.mean(1)).squeeze(-1)


def build_model():
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return FTTransformer().eval()


model = build_model


def inputs():
    g = torch.Generator().manual_seed(6)
    return {"x_num": torch.randn(6, 4, generator=g),
            "x_cat": torch.stack([torch.randint(0, c, (6,), generator=g) for c in (3, 5, 7)], 1)}
