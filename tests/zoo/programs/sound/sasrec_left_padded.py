"""SASRec: next-item recommendation from histories padded on the left with item 0."""

import torch
import torch.nn as nn


class PointWiseFeedForward(nn.Module):
    def __init__(self, hidden, dropout):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(hidden, hidden, 1), nn.Conv1d(hidden, hidden, 1)
        self.dropout1, self.dropout2 = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x):
        y = self.dropout2(self.conv2(torch.relu(self.dropout1(self.conv1(x.transpose(-1, -2))))))
        return y.transpose(-1, -2)


class SASRec(nn.Module):
    def __init__(self, item_num=90, hidden=30, maxlen=16, blocks=2, heads=2, dropout=0.2):
        super().__init__()
        self.heads, self.maxlen = heads, maxlen
        self.item_emb = nn.Embedding(item_num + 1, hidden, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen + 1, hidden, padding_idx=0)
        self.emb_dropout = nn.Dropout(dropout)
        self.attn_norms = nn.ModuleList(nn.LayerNorm(hidden, eps=1e-8) for _ in range(blocks))
        self.attns = nn.ModuleList(nn.MultiheadAttention(hidden, heads, dropout, batch_first=True) for _ in range(blocks))
        self.ffn_norms = nn.ModuleList(nn.LayerNorm(hidden, eps=1e-8) for _ in range(blocks))
        self.ffns = nn.ModuleList(PointWiseFeedForward(hidden, dropout) for _ in range(blocks))
        self.last_norm = nn.LayerNorm(hidden, eps=1e-8)

    def forward(self, log_seqs):
        b, n = log_seqs.shape
        real = log_seqs != 0
        # the most recent item is always number one, whatever the padding
        back = torch.arange(n, 0, -1, device=log_seqs.device)
        x = self.item_emb(log_seqs) * self.item_emb.embedding_dim**0.5 + self.pos_emb(back * real)
        x = self.emb_dropout(x)
        allowed = torch.ones(n, n, dtype=torch.bool, device=log_seqs.device).tril() & real[:, None, :]
        # a padded step looks at itself, so that no row is left empty; nobody looks at it
        allowed = allowed | torch.eye(n, dtype=torch.bool, device=log_seqs.device)
        mask = (~allowed).repeat_interleave(self.heads, dim=0)
        for norm1, attn, norm2, ffn in zip(self.attn_norms, self.attns, self.ffn_norms, self.ffns):
            q = norm1(x)
            x = x + attn(q, q, q, attn_mask=mask, need_weights=False)[0]
            x = x + ffn(norm2(x))
        feats = self.last_norm(x)
        return feats[:, -1] @ self.item_emb.weight[1:].T


with torch.random.fork_rng():
    torch.manual_seed(110)
    model = SASRec().eval()


def inputs():
    g = torch.Generator().manual_seed(111)
    seqs = torch.randint(1, 91, (4, 13), generator=g)
    for row, pad in enumerate((0, 4, 9, 2)):
        seqs[row, :pad] = 0
    return {"log_seqs": seqs}


expect = {"padding": "log_seqs pad=0"}
