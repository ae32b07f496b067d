"""SASRec variant with candidate scoring; item and time-gap embeddings, own causal attention."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TimeAwareAttention(nn.Module):
    def __init__(self, units=32, heads=2, gaps=16):
        super().__init__()
        self.heads, self.units = heads, units
        self.Q_w, self.K_w, self.V_w = nn.Linear(units, units), nn.Linear(units, units), nn.Linear(units, units)
        self.gap_K, self.gap_V = nn.Embedding(gaps, units), nn.Embedding(gaps, units)

    def forward(self, x, gap):
        Q, K, V = self.Q_w(x), self.K_w(x), self.V_w(x)
        hs = self.units // self.heads
        Q_ = torch.cat(torch.split(Q, hs, dim=2), dim=0)
        K_ = torch.cat(torch.split(K, hs, dim=2), dim=0)
        V_ = torch.cat(torch.split(V, hs, dim=2), dim=0)
        gk = torch.cat(torch.split(self.gap_K(gap), hs, dim=3), dim=0)
        gv = torch.cat(torch.split(self.gap_V(gap), hs, dim=3), dim=0)
        w = Q_.matmul(K_.transpose(1, 2)) + gk.matmul(Q_.unsqueeze(-1)).squeeze(-1)
        w = w / hs**0.5
        n = x.size(1)
        keep = torch.tril(torch.ones(n, n, dtype=torch.bool), diagonal=1)  # fault: AS201
        w = torch.where(keep, w, torch.full_like(w, -(2**31) + 1))  # fault: AS201
        w = F.softmax(w, dim=-1)
        out = w.matmul(V_) + (w.unsqueeze(2) @ gv).squeeze(2)
        return torch.cat(torch.split(out, x.size(0), dim=0), dim=2)


class TiSASRec(nn.Module):
    def __init__(self, items=45, units=32, maxlen=20):
        super().__init__()
        self.item_emb = nn.Embedding(items, units)
        self.abs_pos = nn.Embedding(maxlen, units)
        self.att, self.ln = TimeAwareAttention(units), nn.LayerNorm(units)

    def forward(self, seqs, gap):
        x = self.item_emb(seqs) + self.abs_pos(torch.arange(seqs.size(1)))
        x = x + self.att(self.ln(x), gap)
        return x @ self.item_emb.weight.T


with torch.random.fork_rng():
    torch.manual_seed(16)
    model = TiSASRec().eval()
_g = torch.Generator().manual_seed(16)
_t = torch.randint(0, 3, (3, 12), generator=_g).cumsum(1)
inputs = (torch.randint(0, 45, (3, 12), generator=_g), (_t[:, :, None] - _t[:, None]).abs().clamp(max=15))
expect = {"causal": True}
