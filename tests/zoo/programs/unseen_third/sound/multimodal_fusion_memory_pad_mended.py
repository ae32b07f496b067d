"""Speech translation: nn.TransformerDecoder reads a padded acoustic memory."""
import torch
import torch.nn as nn


class SpeechTranslator(nn.Module):
    def __init__(self, feats=13, vocab=37, d=32, nhead=4):
        super().__init__()
        self.subsample = nn.Linear(feats, d)
        enc = nn.TransformerEncoderLayer(d, nhead, 64, batch_first=True, dropout=0.1)
        dec = nn.TransformerDecoderLayer(d, nhead, 64, batch_first=True, dropout=0.1)
        self.encoder = nn.TransformerEncoder(enc, 1, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(dec, 2)
        self.spos = nn.Parameter(torch.randn(60, d) * 0.2)
        self.tpos = nn.Parameter(torch.randn(30, d) * 0.2)
        self.emb = nn.Embedding(vocab, d)
        self.fc = nn.Linear(d, vocab)

    def forward(self, src, src_pad, tgt):
        x = self.subsample(src) + self.spos[: src.size(1)]
        memory = self.encoder(x, src_key_padding_mask=src_pad)
        y = self.emb(tgt) + self.tpos[: tgt.size(1)]
        tm = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
        y = self.decoder(y, memory, tgt_mask=tm, memory_key_padding_mask=src_pad)
        return self.fc(y)


with torch.random.fork_rng():
    torch.manual_seed(58)
    model = SpeechTranslator().eval()
_g = torch.Generator().manual_seed(58)
inputs = {
    "src": torch.randn(3, 24, 13, generator=_g),
    "src_pad": torch.arange(24)[None] >= torch.tensor([24, 15, 19])[:, None],
    "tgt": torch.randint(0, 37, (3, 9), generator=_g),
}
expect = {"padding": "src_pad drop", "causal": True}
