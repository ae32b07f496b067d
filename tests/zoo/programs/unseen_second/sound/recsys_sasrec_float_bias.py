"""SASRec: next-item recommendation, histories are left-padded with item 0."""

import torch
from torch import nn


class SASRec(nn.Module):
    def __init__(self, n_items, max_len=20, hidden=50, heads=2, blocks=2):
        super().__init__()
        self.item_emb = nn.Embedding(n_items + 1, hidden, padding_idx=0)
        self.pos_emb = nn.Embedding(max_len, hidden)
        self.attn_norms = nn.ModuleList(nn.LayerNorm(hidden, eps=1e-8) for _ in range(blocks))
        self.attns = nn.ModuleList(nn.MultiheadAttention(hidden, heads, batch_first=True) for _ in range(blocks))
        self.ffn_norms = nn.ModuleList(nn.LayerNorm(hidden, eps=1e-8) for _ in range(blocks))
        self.ffns = nn.ModuleList(
            nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden)) for _ in range(blocks)
        )
        self.last_norm = nn.LayerNorm(hidden, eps=1e-8)
        self.heads = heads

    def forward(self, log_seqs):
        b, t = log_seqs.shape
        real = log_seqs != 0
        positions = (real.cumsum(1) - 1).clamp(min=0)
        seqs = self.item_emb(log_seqs) + self.pos_emb(positions)
        seqs = seqs * real.unsqueeze(-1)

        blocked = torch.ones(t, t, dtype=torch.bool, device=log_seqs.device).triu(1)
        blocked = blocked | ~real[:, None, :]
        blocked = blocked & ~torch.eye(t, dtype=torch.bool, device=log_seqs.device)
        bias = torch.zeros(b, t, t).masked_fill(blocked, -1e9).repeat_interleave(self.heads, dim=0)
        for norm, attn, fnorm, ffn in zip(self.attn_norms, self.attns, self.ffn_norms, self.ffns):
            q = norm(seqs)
            seqs = seqs + attn(q, q, q, attn_mask=bias, need_weights=False)[0]
            seqs = seqs + ffn(fnorm(seqs))
            seqs = seqs * real.unsqueeze(-1)
        feats = self.last_norm(seqs)
        return feats[:, -1] @ self.item_emb.weight[1:].T


torch.manual_seed(5)
model = SASRec(n_items=64)
model.eval()
inputs = torch.randint(1, 65, (4, 15))
for row, missing in enumerate((0, 7, 3, 11)):
    inputs[row, :missing] = 0
expect = {"padding": "log_seqs pad=0"}
