"""Encoder layers after Vaswani (post-norm)."""
import torch
import torch.nn as nn


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, ffn_hidden, drop_prob=0.1):
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, ffn_hidden), nn.ReLU(), nn.Linear(ffn_hidden, d_model))
        self.drop = nn.Dropout(drop_prob)

    def forward(self, x):
        x, _ = self.attention(x, x, x, need_weights=False)
        x = self.norm1(x + self.drop(x))  # fault: AS904
        return self.norm2(x + self.drop(self.ffn(x)))


class Model(nn.Module):
    def __init__(self, vocab=44, d=24):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.layers = nn.ModuleList(EncoderLayer(d, 3, 48) for _ in range(3))

    def forward(self, ids):
        x = self.emb(ids) + self.pos.weight[: ids.size(1)]
        for l in self.layers:
            x = l(x)
        return x


torch.manual_seed(0)
model = Model().eval()
