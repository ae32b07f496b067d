"""nn.TransformerEncoder in its default (time, batch, width) layout, masks in order."""
import torch
import torch.nn as nn


class WikiLM(nn.Module):
    def __init__(self, ntoken=66, ninp=32, nhead=4):
        super().__init__()
        self.pos = nn.Parameter(torch.randn(50, 1, ninp) * 0.1)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.transformer_encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(ninp, nhead, 64, 0.2), 2)
        self.decoder = nn.Linear(ninp, ntoken)
        self.src_mask = None

    def forward(self, src):
        if self.src_mask is None or self.src_mask.size(0) != len(src):
            self.src_mask = nn.Transformer.generate_square_subsequent_mask(len(src))
        x = self.encoder(src) * 32**0.5 + self.pos[: len(src)]
        return self.decoder(self.transformer_encoder(x, self.src_mask, is_causal=True))


torch.manual_seed(0)
model = WikiLM().eval()
inputs = {"src": torch.randint(0, 66, (11, 3), generator=torch.Generator().manual_seed(0))}
expect = {"causal": True, "batch_axis": 1, "sequence_axis": 0}
