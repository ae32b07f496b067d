"""Tiny story model; causal buffer in init."""
import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, d, h, block):
        super().__init__()
        self.h = h
        self.to_q, self.to_k, self.to_v, self.to_o = [nn.Linear(d, d, bias=False) for _ in range(4)]
        self.register_buffer("visible", torch.ones(block, block, dtype=torch.bool).tril(1))  # fault: AS201

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (f(x).view(b, t, self.h, -1).transpose(1, 2) for f in (self.to_q, self.to_k, self.to_v))
        s = torch.einsum("bhid,bhjd->bhij", q, k) / (d // self.h) ** 0.5
        s = torch.where(self.visible[:t, :t], s, torch.finfo(s.dtype).min)
        y = torch.einsum("bhij,bhjd->bihd", s.softmax(-1), v)  # fault: AS201
        return self.to_o(y.reshape(b, t, d))


class Story(nn.Module):
    def __init__(self, vocab=77, d=36, h=3, block=40):
        super().__init__()
        self.vocab_size = vocab
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(block, d)
        self.blocks = nn.ModuleList(nn.ModuleList([nn.LayerNorm(d), Attention(d, h, block), nn.LayerNorm(d), nn.Linear(d, d)]) for _ in range(2))
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx):
        x = self.wte(idx) + self.wpe.weight[: idx.shape[1]]
        for n1, a, n2, f in self.blocks:
            x = x + a(n1(x))
            x = x + torch.relu(f(n2(x)))
        return self.lm_head(x)


torch.manual_seed(0)
model = Story().eval()
