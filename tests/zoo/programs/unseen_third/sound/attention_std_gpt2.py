"""GPT with the init of the paper, std given as a config number."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GPTAttn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.c_attn, self.c_proj = h, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.c_attn(x).view(b, t, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class GPT(nn.Module):
    def __init__(self, vocab=70, d=48, h=4, n=2, initializer_range=0.02):
        super().__init__()
        self.initializer_range = initializer_range
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(64, d)
        self.a = nn.ModuleList(GPTAttn(d, h) for _ in range(n))
        self.l = nn.ModuleList(nn.LayerNorm(d) for _ in range(n + 1))
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, nn.Linear):
            m.weight.data.normal_(0.0, self.initializer_range)

    def forward(self, idx):
        x = self.wte(idx) + self.wpe.weight[: idx.size(1)]
        for a, l in zip(self.a, self.l):
            x = x + a(l(x))
        return self.lm_head(self.l[-1](x))


torch.manual_seed(0)
model = GPT()
