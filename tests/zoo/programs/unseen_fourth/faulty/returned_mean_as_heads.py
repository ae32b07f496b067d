"""Encoder layer that hands its attention to a head viewer."""
import torch
import torch.nn as nn


class ViewableLayer(nn.Module):
    def __init__(self, d=32, h=4):
        super().__init__()
        self.num_heads = h
        self.mha = nn.MultiheadAttention(d, h, batch_first=True)
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        y, attn = self.mha(x, x, x, need_weights=True)
        attn = attn.unsqueeze(1).expand(-1, self.num_heads, -1, -1)  # fault: AS803
        return self.norm(x + y), attn


class Viewer(nn.Module):
    def __init__(self, vocab=52, d=32):
        super().__init__()
        self.emb, self.pos = nn.Embedding(vocab, d), nn.Embedding(40, d)
        self.layers = nn.ModuleList([ViewableLayer(d) for _ in range(2)])
        self.out = nn.Linear(d, 3)

    def forward(self, input_ids):
        x = self.emb(input_ids) + self.pos.weight[:input_ids.size(1)]
        attentions = []
        for l in self.layers:
            x, a = l(x)
            attentions.append(a)
        return {"logits": self.out(x[:, 0]), "attentions": tuple(attentions)}


def model():
    torch.manual_seed(15)
    return Viewer().eval()
