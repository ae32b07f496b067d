"""Batched generation with left padded prompts and learned positions."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MiniGPT(nn.Module):
    def __init__(self, vocab=70, d=32, h=4, n=2, ctx=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.h = h
        self.qkv = nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(n))
        self.proj = nn.ModuleList(nn.Linear(d, d) for _ in range(n))
        self.ln = nn.ModuleList(nn.LayerNorm(d) for _ in range(n))
        self.head = nn.Linear(d, vocab, bias=False)

    def forward(self, input_ids, attention_mask):
        B, T = input_ids.shape
        position_ids = torch.arange(T).expand(B, T)  # fault: AS504
        x = self.wte(input_ids) + self.wpe(position_ids)
        allow = attention_mask.bool()[:, None, None, :] & torch.ones(T, T, dtype=torch.bool).tril()
        allow = allow | torch.eye(T, dtype=torch.bool)
        for qkv, proj, ln in zip(self.qkv, self.proj, self.ln):
            q, k, v = (z.view(B, T, self.h, -1).transpose(1, 2) for z in qkv(ln(x)).chunk(3, -1))
            x = x + proj(F.scaled_dot_product_attention(q, k, v, attn_mask=allow).transpose(1, 2).flatten(2))
        return self.head(x)


torch.manual_seed(35)
model = MiniGPT().eval()
_g = torch.Generator().manual_seed(35)
_m = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [1] * 8, [0, 1, 1, 1, 1, 1, 1, 1]])
inputs = {"input_ids": torch.randint(1, 70, (3, 8), generator=_g) * _m, "attention_mask": _m}
expect = {"causal": True, "padding": "attention_mask keep"}
