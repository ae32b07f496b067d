"""Story generator with a hand written decoder block."""
import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, d, heads, drop=0.1):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, heads, dropout=drop, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 3 * d), nn.SiLU(), nn.Linear(3 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        T = x.shape[1]
        mask = None
        if self.training:  # fault: AS201
            mask = torch.full((T, T), float("-inf"), device=x.device).triu(1)
        h = self.n1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class StoryLM(nn.Module):
    def __init__(self, vocab_size=100, d=40, heads=4, n=2):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, d)
        self.wpe = nn.Embedding(64, d)
        self.h = nn.ModuleList([Block(d, heads) for _ in range(n)])
        self.lm_head = nn.Linear(d, vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, input_ids):
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.size(1), device=input_ids.device))
        for b in self.h:
            x = b(x)
        return self.lm_head(x)


def model():
    torch.manual_seed(40)
    return StoryLM().eval()


expect = {"causal": True}
