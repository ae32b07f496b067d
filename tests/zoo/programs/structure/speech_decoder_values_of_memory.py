"""Frame-synchronous decoder: cross-attention gets memory as keys and as values."""

import torch
from torch import nn


class DecoderLayer(nn.Module):
    def __init__(self, d_model=32, nhead=4):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.multihead_attn = nn.MultiheadAttention(d_model, nhead, batch_first=True)
        self.linear1 = nn.Linear(d_model, 4 * d_model)
        self.linear2 = nn.Linear(4 * d_model, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, tgt, memory):
        x = self.norm1(tgt)
        tgt = tgt + self.self_attn(x, x, x)[0]
        x = self.norm2(tgt)
        tgt = tgt + self.multihead_attn(query=x, key=memory, value=memory)[0]
        return tgt + self.linear2(torch.relu(self.linear1(self.norm3(tgt))))


class Decoder(nn.Module):
    def __init__(self, layers=2, d_model=32):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(d_model) for _ in range(layers))
        self.out = nn.Linear(d_model, 20)

    def forward(self, tgt, memory):
        for layer in self.layers:
            tgt = layer(tgt, memory)
        return self.out(tgt)


model = Decoder().eval()
inputs = {"tgt": torch.randn(2, 9, 32), "memory": torch.randn(2, 9, 32)}
expect = {"causal": False}
