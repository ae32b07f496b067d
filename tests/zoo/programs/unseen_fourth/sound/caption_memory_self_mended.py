"""Recipe generator: decoder layer over ingredient vectors."""
import torch
import torch.nn as nn


class RecipeLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.src_attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.n = nn.ModuleList([nn.LayerNorm(d) for _ in range(2)])

    def forward(self, x, memory, tgt_mask):
        y = self.n[0](x)
        x = x + self.self_attn(y, y, y, attn_mask=tgt_mask, need_weights=False)[0]
        y = self.n[1](x)
        return x + self.src_attn(y, memory, memory, need_weights=False)[0]


class Recipe(nn.Module):
    def __init__(self, n_ing=60, n_words=90, d=36):
        super().__init__()
        self.ing = nn.Embedding(n_ing, d)
        self.w, self.p = nn.Embedding(n_words, d), nn.Embedding(40, d)
        self.layers = nn.ModuleList([RecipeLayer(d, 4) for _ in range(2)])
        self.fc = nn.Linear(d, n_words)

    def forward(self, ingredients, steps):
        T = steps.size(1)
        m = torch.triu(torch.ones(T, T, dtype=torch.bool), 1)
        x, mem = self.w(steps) + self.p.weight[:T], self.ing(ingredients)
        for l in self.layers:
            x = l(x, mem, m)
        return self.fc(x)


torch.manual_seed(6)
model = Recipe().eval()
_g = torch.Generator().manual_seed(6)
inputs = {"ingredients": torch.randint(0, 60, (2, 7), generator=_g), "steps": torch.randint(0, 90, (2, 11), generator=_g)}
# note: AS501
