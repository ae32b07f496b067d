"""BERT4Rec: bidirectional item sequences with padding id 0."""
import torch
from torch import nn


class BERT4Rec(nn.Module):
    PAD, MASK = 0, 1

    def __init__(self, n_items=60, max_len=16, d_model=48, heads=4, n_layers=2, p=0.1):
        super().__init__()
        self.token = nn.Embedding(n_items + 2, d_model, padding_idx=self.PAD)
        self.position = nn.Embedding(max_len, d_model)
        enc = nn.TransformerEncoderLayer(d_model, heads, 4 * d_model, p, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(enc, n_layers, enable_nested_tensor=False)
        self.out = nn.Linear(d_model, n_items + 2)

    def forward(self, seq):
        x = self.token(seq) + self.position.weight[: seq.size(1)]
        mask = seq.eq(self.PAD)
        x = self.encoder(x, src_key_padding_mask=mask)
        return self.out(x)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(90)
        return BERT4Rec().eval()


inputs = {"seq": torch.tensor([[7, 12, 1, 33, 9, 0, 0], [4, 1, 25, 0, 0, 0, 0], [50, 8, 8, 17, 1, 2, 0]])}
expect = {"padding": "seq pad=0"}
