"""Audio-text training with sequence packing: several clips in one row, `clip_ids` separate them; causal."""
import torch
import torch.nn as nn


class PackedSelfAttention(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.h = h
        self.in_proj, self.out_proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, bias):
        B, T, D = x.shape
        q, k, v = self.in_proj(x).view(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        p = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) * (D // self.h) ** -0.5 + bias, -1)  # fault: AS209
        return self.out_proj(torch.einsum("bhqk,bhkd->bqhd", p, v).reshape(B, T, D))


class PackedAudioLM(nn.Module):
    def __init__(self, codes=80, d=32):
        super().__init__()
        self.codes, self.pos = nn.Embedding(codes, d), nn.Embedding(64, d)
        self.layers, self.norms = nn.ModuleList([PackedSelfAttention(d) for _ in range(2)]), nn.ModuleList([nn.LayerNorm(d) for _ in range(2)])

    def forward(self, codes, clip_ids):
        B, T = codes.shape
        same = clip_ids.unsqueeze(1) == clip_ids.unsqueeze(2)
        causal = torch.ones(T, T).tril().bool()
        allow = causal.expand(B, T, T)  # fault: AS209
        bias = torch.zeros(B, 1, T, T).masked_fill(~allow.unsqueeze(1), torch.finfo(torch.float32).min)
        start = torch.where(same & causal, torch.arange(T), T).amin(-1)
        x = self.codes(codes) + self.pos(torch.arange(T) - start)
        for l, n in zip(self.layers, self.norms):
            x = x + l(n(x), bias)
        return x @ self.codes.weight.T


with torch.random.fork_rng():
    torch.manual_seed(125)
    model = PackedAudioLM().eval()
inputs = {"codes": torch.randint(0, 80, (2, 16), generator=torch.Generator().manual_seed(125)), "clip_ids": torch.tensor([[0] * 5 + [1] * 11, [0] * 9 + [1] * 4 + [2] * 3])}
expect = {"causal": True, "documents": "clip_ids"}
