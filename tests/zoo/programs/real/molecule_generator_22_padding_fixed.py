"""SMILES encoder on nn.TransformerEncoder with padded batches, https://github.com/DaoyuanLi2816/Molecule-Generator/pull/22."""

import torch
from torch import nn

PAD = 0


class SmilesEncoder(nn.Module):
    def __init__(self, vocab_size=38, d_model=48, nhead=6, num_layers=2, max_len=50):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=PAD)
        self.positions = nn.Parameter(torch.randn(max_len, d_model) * 0.02)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 96, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers, enable_nested_tensor=False)
        self.property_head = nn.Linear(d_model, 3)

    def forward(self, smiles):
        real = smiles != PAD
        x = self.embedding(smiles) + self.positions[: smiles.size(1)]
        memory = self.encoder(x, src_key_padding_mask=~real)
        pooled = (memory * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return self.property_head(pooled)


with torch.random.fork_rng():
    torch.manual_seed(22)
    model = SmilesEncoder().eval()
    smiles = torch.randint(1, 38, (4, 17))
    smiles = smiles.masked_fill(torch.arange(17) >= torch.tensor([[17], [9], [12], [6]]), PAD)
    inputs = {"smiles": smiles}
expect = {"padding": "smiles pad=0"}
