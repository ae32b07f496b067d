"""Image captions by nn.TransformerDecoder over a grid of visual features."""
import torch
from torch import nn


class GridCaptioner(nn.Module):
    def __init__(self, vocab=72, d=32, heads=4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, d), nn.Embedding(30, d)
        self.cells = nn.Linear(10, d)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d, heads, 48, 0.1, batch_first=True), 2)
        self.out = nn.Linear(d, vocab)

    def forward(self, caption, grid):
        n = caption.size(1)
        y = self.tokens(caption) + self.places(torch.arange(n))
        causal = torch.full((n, grid.size(1)), float("-inf")).triu(1)
        y = self.decoder(y, self.cells(grid), memory_mask=causal)  # fault: AS201
        return self.out(y)


torch.manual_seed(58)
model = GridCaptioner().eval()
inputs = {"caption": torch.randint(72, (3, 9)), "grid": torch.randn(3, 12, 10)}
# also: AS212|AS206
expect = {"causal": True}
