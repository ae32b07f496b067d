"""Masked cross-attention: queries look only inside their predicted mask; an empty mask means the whole image."""
import torch
import torch.nn as nn


class MaskedDecoder(nn.Module):
    def __init__(self, d=32, h=4, nq=6, layers=2):
        super().__init__()
        self.h, self.query, self.query_pos = h, nn.Embedding(nq, d), nn.Embedding(nq, d)
        self.cross = nn.ModuleList([nn.MultiheadAttention(d, h, batch_first=True) for _ in range(layers)])
        self.self_attn = nn.ModuleList([nn.MultiheadAttention(d, h, batch_first=True) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(2 * layers)])
        self.mask_embed = nn.Linear(d, d)

    def predict(self, x, feats):
        logits = torch.einsum("bqd,bnd->bqn", self.mask_embed(x), feats)
        hidden = (logits.sigmoid() < 0.6).detach()
        hidden[hidden.all(-1)] = False
        return logits, hidden.repeat_interleave(self.h, 0)

    def forward(self, feats, pos):
        x = self.query.weight.expand(feats.size(0), -1, -1)
        qp = self.query_pos.weight
        logits, hidden = self.predict(x, feats)
        for i, (c, s) in enumerate(zip(self.cross, self.self_attn)):
            x = self.norms[2 * i](x + c(x + qp, feats + pos, feats, attn_mask=hidden)[0])
            x = self.norms[2 * i + 1](x + s(x + qp, x + qp, x)[0])
            logits, hidden = self.predict(x, feats)
        return logits


with torch.random.fork_rng():
    torch.manual_seed(12)
    model = MaskedDecoder().eval()
_g = torch.Generator().manual_seed(12)
inputs = (torch.randn(2, 20, 32, generator=_g), torch.randn(1, 20, 32, generator=_g))
