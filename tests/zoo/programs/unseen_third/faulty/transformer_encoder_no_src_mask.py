"""Intent classifier, stack of nn.TransformerEncoderLayer, mean over real tokens."""
import torch
import torch.nn as nn


class Intent(nn.Module):
    PAD = 0

    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg["vocab"], cfg["d"], padding_idx=self.PAD)
        self.pos = nn.Embedding(cfg["max"], cfg["d"])
        layer = nn.TransformerEncoderLayer(cfg["d"], cfg["h"], dim_feedforward=2 * cfg["d"], activation="gelu", batch_first=True, norm_first=True)
        self.enc = nn.TransformerEncoder(layer, cfg["n"], enable_nested_tensor=False)
        self.cls = nn.Linear(cfg["d"], cfg["intents"])

    def forward(self, batch):
        ids = batch
        pad = ids.eq(self.PAD)
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        x = self.enc(x)  # fault: AS202
        x = x.masked_fill(pad.unsqueeze(-1), 0.0)
        return self.cls(x.sum(1) / (~pad).sum(1, keepdim=True))


torch.manual_seed(10)
model = Intent(dict(vocab=55, d=36, h=4, n=2, max=32, intents=6)).eval()
_ids = torch.randint(1, 55, (3, 11), generator=torch.Generator().manual_seed(4))
_ids[0, 7:] = 0
_ids[2, 4:] = 0
inputs = {"batch": _ids}
expect = {"padding": "batch pad=0"}
