"""nn.TransformerEncoder over padded clips, batch first, with a learned class token."""

import torch
from torch import nn


class ClipClassifier(nn.Module):
    def __init__(self, feat=19, width=32, heads=4, classes=6, max_len=40):
        super().__init__()
        self.proj = nn.Linear(feat, width)
        self.cls = nn.Parameter(torch.randn(width) * 0.02)
        self.pos = nn.Parameter(torch.randn(max_len, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, heads, 64, dropout=0.2, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, features, padding_mask):
        b = features.shape[0]
        x = torch.cat([self.cls.expand(b, 1, -1), self.proj(features)], dim=1)
        x = x + self.pos[: x.shape[1]]
        never = torch.zeros(b, 1, dtype=torch.bool, device=x.device)
        x = self.encoder(x, src_key_padding_mask=torch.cat([never, padding_mask], dim=1))
        return self.head(x[:, 0])


with torch.random.fork_rng():
    torch.manual_seed(41)
    model = ClipClassifier().eval()

inputs = {
    "features": torch.randn(3, 13, 19, generator=torch.Generator().manual_seed(42)),
    "padding_mask": torch.arange(13)[None] >= torch.tensor([13, 8, 5])[:, None],
}
expect = {"padding": "padding_mask drop"}
