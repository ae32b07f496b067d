"""Pre-norm GPT block with a shared name for the normalised stream."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PreNormBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.ln1, self.ln2, self.h = nn.LayerNorm(d), nn.LayerNorm(d), h
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def attn(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.h, d // self.h).transpose(1, 2) for z in self.qkv(x).chunk(3, 2))
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def forward(self, x):
        y = self.ln1(x)
        x = y + self.attn(y)  # fault: AS904
        return x + self.fc(self.ln2(x))


class PoemGPT(nn.Module):
    def __init__(self, vocab=68, d=36, h=4, n=3):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.blocks = nn.Sequential(*(PreNormBlock(d, h) for _ in range(n)))
        self.lnf, self.head = nn.LayerNorm(d), nn.Linear(d, vocab)

    def forward(self, idx):
        return self.head(self.lnf(self.blocks(self.wte(idx) + self.wpe.weight[:idx.size(1)])))


torch.manual_seed(8)
model = PoemGPT().eval()
expect = {"causal": True}
