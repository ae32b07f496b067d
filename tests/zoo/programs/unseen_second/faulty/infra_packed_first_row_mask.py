"""Packed pre-training step: several documents share a row, segment ids keep them apart."""

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, WIDTH, HEADS, ROW = 120, 48, 6, 26


class PackedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj = nn.Linear(WIDTH, WIDTH * 3, bias=False)
        self.out_proj = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, h, allow):
        n, t, _ = h.shape
        q, k, v = self.in_proj(h).view(n, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        ctx = F.scaled_dot_product_attention(q, k, v, attn_mask=allow)  # fault: AS211|AS209|AS102
        return self.out_proj(ctx.permute(0, 2, 1, 3).flatten(2))


class PackedLM(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, WIDTH)
        self.wpe = nn.Embedding(64, WIDTH)
        self.attns = nn.ModuleList(PackedAttention() for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(depth))
        self.final = nn.LayerNorm(WIDTH)

    def forward(self, tokens, segment_ids, position_ids):
        t = tokens.size(1)
        same = segment_ids[:, :, None] == segment_ids[:, None, :]
        causal = torch.ones(t, t, dtype=torch.bool, device=tokens.device).tril()
        allow = (same & causal)[0]  # fault: AS211|AS209|AS102
        h = self.wte(tokens) + self.wpe(position_ids)
        for norm, attn in zip(self.norms, self.attns):
            h = h + attn(norm(h), allow)
        return self.final(h) @ self.wte.weight.T


def pack(lengths, gen):
    seg = torch.cat([torch.full((n,), i) for i, n in enumerate(lengths)])
    pos = torch.cat([torch.arange(n) for n in lengths])
    return torch.randint(0, VOCAB, (ROW,), generator=gen), seg, pos


def inputs():
    gen = torch.Generator().manual_seed(31)
    rows = [pack(lengths, gen) for lengths in ([11, 8, 7], [5, 21], [9, 9, 4, 4])]
    names = ("tokens", "segment_ids", "position_ids")
    return {name: torch.stack(column) for name, column in zip(names, zip(*rows))}


torch.manual_seed(77)
model = PackedLM().eval()
expect = {"causal": True, "documents": "segment_ids"}
# also: AS209 AS212 AS102
