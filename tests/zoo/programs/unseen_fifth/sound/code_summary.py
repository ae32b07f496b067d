"""Code-to-docstring model: nn.TransformerEncoder + nn.TransformerDecoder, batch first."""
import torch
import torch.nn as nn


class CodeDoc(nn.Module):
    pad_idx = 0

    def __init__(self, code_vocab=180, doc_vocab=95, dim=40, heads=5, **unused):
        super().__init__()
        self.code_tok = nn.Embedding(code_vocab, dim, padding_idx=self.pad_idx)
        self.doc_tok = nn.Embedding(doc_vocab, dim, padding_idx=self.pad_idx)
        self.code_pos, self.doc_pos = nn.Embedding(64, dim), nn.Embedding(64, dim)
        enc = nn.TransformerEncoderLayer(dim, heads, 70, batch_first=True, norm_first=True)
        dec = nn.TransformerDecoderLayer(dim, heads, 70, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(enc, 1, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(dec, 2)
        self.lm = nn.Linear(dim, doc_vocab)

    def encode(self, code):
        pos = torch.arange(code.size(1), device=code.device)
        return self.encoder(self.code_tok(code) + self.code_pos(pos), src_key_padding_mask=code.eq(self.pad_idx))

    def forward(self, code, doc):
        memory = self.encode(code)
        pos = torch.arange(doc.size(1), device=doc.device)
        causal = nn.Transformer.generate_square_subsequent_mask(doc.size(1), device=doc.device)
        h = self.decoder(self.doc_tok(doc) + self.doc_pos(pos), memory, tgt_mask=causal,
                         memory_key_padding_mask=code.eq(self.pad_idx))
        return self.lm(h)


torch.manual_seed(50)
model = CodeDoc().eval()
g = torch.Generator().manual_seed(51)
code = torch.randint(1, 180, (3, 20), generator=g)
code[0, 15:] = 0
code[2, 8:] = 0
inputs = {"code": code, "doc": torch.randint(1, 95, (3, 9), generator=g)}
expect = {"padding": "code pad=0", "causal": True}
