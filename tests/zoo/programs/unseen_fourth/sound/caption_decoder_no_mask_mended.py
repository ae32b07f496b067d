"""Image captioner: CNN features as memory, nn.TransformerDecoder on top."""
import torch
import torch.nn as nn


class Captioner(nn.Module):
    def __init__(self, vocab=75, d=36, nhead=4, layers=2, max_len=30):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, d, 3, 2, 1))
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Embedding(max_len, d)
        self.dec = nn.TransformerDecoder(nn.TransformerDecoderLayer(d, nhead, 2 * d, batch_first=True), layers)
        self.fc = nn.Linear(d, vocab)

    def forward(self, images, captions):
        mem = self.cnn(images).flatten(2).permute(0, 2, 1)
        L = captions.size(1)
        tgt = self.emb(captions) + self.pos(torch.arange(L, device=captions.device)).unsqueeze(0)
        # causal = nn.Transformer.generate_square_subsequent_mask(L)
        h = self.dec(tgt, mem, tgt_mask=nn.Transformer.generate_square_subsequent_mask(L))
        return self.fc(h)


torch.manual_seed(12)
model = Captioner().eval()
_g = torch.Generator().manual_seed(12)
inputs = (torch.randn(2, 3, 16, 16, generator=_g), torch.randint(0, 75, (2, 7), generator=_g))
expect = {"causal": True}
