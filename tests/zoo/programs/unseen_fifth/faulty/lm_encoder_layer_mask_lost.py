"""Word-level language model built on nn.TransformerEncoder (PyTorch tutorial lineage)."""
import math
import torch
from torch import nn


class TransformerLM(nn.Module):
    def __init__(self, ntoken=130, ninp=44, nhead=4, nhid=60, nlayers=2, dropout=0.2):
        super().__init__()
        self.src_mask = None
        self.encoder = nn.Embedding(ntoken, ninp)
        self.pos = nn.Parameter(torch.zeros(1, 200, ninp).normal_(0, 0.05))
        layer = nn.TransformerEncoderLayer(ninp, nhead, nhid, dropout, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, nlayers)
        self.ninp = ninp
        self.decoder = nn.Linear(ninp, ntoken)

    @staticmethod
    def _generate_square_subsequent_mask(sz):
        mask = (torch.triu(torch.ones(sz, sz)) == 1).transpose(0, 1)
        return mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)

    def forward(self, src, has_mask=True):
        if has_mask:
            if self.src_mask is None or self.src_mask.size(0) != src.size(1):
                self.src_mask = self._generate_square_subsequent_mask(src.size(1)).to(src.device)
        else:
            self.src_mask = None
        x = self.encoder(src) * math.sqrt(self.ninp) + self.pos[:, : src.size(1)]
        output = self.transformer_encoder(x)  # fault: AS201
        return torch.log_softmax(self.decoder(output), dim=-1)


def model():
    torch.manual_seed(17)
    return TransformerLM().eval()


inputs = (torch.randint(0, 130, (3, 16), generator=torch.Generator().manual_seed(17)),)
expect = dict(causal=True)
