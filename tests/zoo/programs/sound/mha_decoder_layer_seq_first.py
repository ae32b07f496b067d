"""nn.MultiheadAttention with time first, boolean causal mask, and per-head weights handed back."""

import torch
from torch import nn


class SeqFirstDecoderLayer(nn.Module):
    def __init__(self, d_model=45, nhead=5):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=0.1)
        self.cross_attn = nn.MultiheadAttention(d_model, nhead, kdim=21, vdim=21)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))
        self.ffn = nn.Sequential(nn.Linear(d_model, 90), nn.ReLU(), nn.Dropout(0.1), nn.Linear(90, d_model))

    def forward(self, tgt, memory):
        T = tgt.shape[0]
        causal = torch.ones(T, T, dtype=torch.bool, device=tgt.device).triu(diagonal=1)
        h, _ = self.self_attn(tgt, tgt, tgt, attn_mask=causal, need_weights=False)
        tgt = self.norm1(tgt + h)
        h, weights = self.cross_attn(tgt, memory, memory, need_weights=True, average_attn_weights=False)
        tgt = self.norm2(tgt + h)
        return self.norm3(tgt + self.ffn(tgt)), weights


with torch.random.fork_rng():
    torch.manual_seed(47)
    model = SeqFirstDecoderLayer().eval()

_g = torch.Generator().manual_seed(48)
inputs = {"tgt": torch.randn(8, 2, 45, generator=_g), "memory": torch.randn(11, 2, 21, generator=_g)}
expect = {"causal": True, "batch_axis": 1, "sequence_axis": 0}
# note: AS501
