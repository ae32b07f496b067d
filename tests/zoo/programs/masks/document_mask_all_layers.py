"""Bidirectional encoder on packed short texts, stock PyTorch attention, one mask per head."""

import torch
from torch import nn


class PackedEncoder(nn.Module):
    def __init__(self, vocab=54, dim=24, heads=3, depth=4):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.randn(40, dim) * 0.1)
        self.text_layers = nn.ModuleList(self._layer(dim, heads) for _ in range(depth // 2))
        self.fusion_layers = nn.ModuleList(self._layer(dim, heads) for _ in range(depth // 2))
        self.norm = nn.LayerNorm(dim)

    @staticmethod
    def _layer(dim, heads):
        return nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )

    def forward(self, tokens, docs):
        across = docs.unsqueeze(2) != docs.unsqueeze(1)
        across = across.repeat_interleave(self.heads, dim=0)
        x = self.embed(tokens) + self.pos[: tokens.shape[1]]
        for layer in self.text_layers:
            x = layer(x, src_mask=across)
        for layer in self.fusion_layers:
            x = layer(x, src_mask=across)
        return self.norm(x)


with torch.random.fork_rng():
    torch.manual_seed(50)
    model = PackedEncoder().eval()


def inputs():
    docs = torch.tensor([[0] * 4 + [1] * 7, [0] * 5 + [1] * 2 + [2] * 4])
    return {"tokens": torch.randint(0, 54, (2, 11), generator=torch.Generator().manual_seed(50)), "docs": docs}


expect = {"causal": False, "documents": "docs"}
