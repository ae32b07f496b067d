"""SASRec that zeroes padded steps after every block; the causal mask alone keeps right padding away."""
import torch
import torch.nn as nn


class SAS(nn.Module):
    def __init__(self, items=60, d=32, h=2, maxlen=20):
        super().__init__()
        self.emb, self.pos = nn.Embedding(items, d, padding_idx=0), nn.Embedding(maxlen, d)
        self.mha = nn.ModuleList([nn.MultiheadAttention(d, h) for _ in range(2)])
        self.ln = nn.ModuleList([nn.LayerNorm(d) for _ in range(3)])

    def forward(self, log_seqs):
        keep = (log_seqs != 0).unsqueeze(-1)
        t = log_seqs.size(1)
        x = (self.emb(log_seqs) * 32**0.5 + self.pos.weight[:t]) * keep
        hide = ~torch.tril(torch.ones(t, t, dtype=torch.bool))
        for ln, mha in zip(self.ln, self.mha):
            y = ln(x).transpose(0, 1)
            x = (x + mha(y, y, y, attn_mask=hide, need_weights=False)[0].transpose(0, 1)) * keep
        return self.ln[-1](x)


with torch.random.fork_rng():
    torch.manual_seed(60)
    model = SAS().eval()
_s = torch.randint(1, 60, (3, 12), generator=torch.Generator().manual_seed(60))
_s[0, 7:] = 0
_s[1, 10:] = 0
inputs = (_s,)
expect = {"causal": True}
