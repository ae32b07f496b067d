"""Own head on tokenizer output: embeddings + nn.MultiheadAttention pooling."""
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocab=60, dim=40, heads=5, tags=7):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(1, 32, dim) * 0.02)
        self.mha = nn.MultiheadAttention(dim, heads, batch_first=True, dropout=0.1)
        self.ln = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, tags)

    def forward(self, input_ids, attention_mask):
        x = self.emb(input_ids) + self.pos[:, : input_ids.size(1)]
        y, _ = self.mha(x, x, x, key_padding_mask=attention_mask.bool(), need_weights=False)  # fault: AS205|AS202
        return self.out(self.ln(x + y))


torch.manual_seed(0)
model = Tagger().eval()
_g = torch.Generator().manual_seed(2)
_m = (torch.arange(10)[None] < torch.tensor([6, 9, 8])[:, None]).long()
inputs = {"input_ids": torch.randint(1, 60, (3, 10), generator=_g) * _m, "attention_mask": _m}
expect = {"padding": "attention_mask keep"}
