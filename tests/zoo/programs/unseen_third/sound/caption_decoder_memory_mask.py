"""nn.TransformerDecoder reading a padded bag of region features."""
import torch
import torch.nn as nn


class CaptionDecoder(nn.Module):
    def __init__(self, vocab=66, d=36, heads=3, feat=20):
        super().__init__()
        self.proj = nn.Linear(feat, d)
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(40, d)
        layer = nn.TransformerDecoderLayer(d, heads, 72, batch_first=True)
        self.dec = nn.TransformerDecoder(layer, num_layers=2)
        self.fc = nn.Linear(d, vocab)

    def forward(self, regions, region_mask, captions):
        memory = self.proj(regions)
        L = captions.shape[1]
        tgt = self.emb(captions) + self.pos(torch.arange(L))
        m = nn.Transformer.generate_square_subsequent_mask(L)
        out = self.dec(tgt, memory, tgt_mask=m, tgt_is_causal=True, memory_key_padding_mask=region_mask)
        return self.fc(out)


torch.manual_seed(44)
model = CaptionDecoder().eval()
_g = torch.Generator().manual_seed(5)
inputs = {
    "regions": torch.randn(2, 8, 20, generator=_g),
    "region_mask": torch.tensor([[False] * 8, [False] * 5 + [True] * 3]),
    "captions": torch.randint(0, 66, (2, 6), generator=_g),
}
expect = {"padding": "region_mask drop", "causal": True}
