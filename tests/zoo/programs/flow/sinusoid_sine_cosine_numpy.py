"""Recommender block over item embeddings with Fourier positions."""

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


def position_encoding(n_position, d_hid):
    def angle_vec(position):
        return [position / np.power(10000, 2 * (j // 2) / d_hid) for j in range(d_hid)]

    table = np.array([angle_vec(p) for p in range(n_position)])
    table[:, 0::2] = np.sin(table[:, 0::2])
    table[:, 1::2] = np.cos(table[:, 1::2])
    return torch.FloatTensor(table)


class ItemAttention(nn.Module):
    def __init__(self, items=150, d_hid=26, n_head=2, n_position=60):
        super().__init__()
        self.item_emb = nn.Embedding(items, d_hid)
        self.register_buffer("pos_table", position_encoding(n_position, d_hid))
        self.w_qs = nn.Linear(d_hid, d_hid, bias=False)
        self.w_ks = nn.Linear(d_hid, d_hid, bias=False)
        self.w_vs = nn.Linear(d_hid, d_hid, bias=False)
        self.fc = nn.Linear(d_hid, d_hid, bias=False)
        self.layer_norm = nn.LayerNorm(d_hid, eps=1e-6)
        self.n_head = n_head

    def forward(self, items):
        x = self.item_emb(items) + self.pos_table[: items.shape[1]]
        sz_b, len_q, d = x.shape
        q, k, v = (
            w(x).view(sz_b, len_q, self.n_head, d // self.n_head).transpose(1, 2)
            for w in (self.w_qs, self.w_ks, self.w_vs)
        )
        attn = torch.matmul(q / (d // self.n_head) ** 0.5, k.transpose(2, 3))
        subsequent = torch.triu(torch.ones((1, len_q, len_q)), diagonal=1).bool()
        attn = F.softmax(attn.masked_fill(subsequent, -1e9), dim=-1)
        out = torch.matmul(attn, v).transpose(1, 2).contiguous().view(sz_b, len_q, -1)
        return self.layer_norm(x + self.fc(out))


with torch.random.fork_rng():
    torch.manual_seed(63)
    model = ItemAttention().eval()

inputs = {"items": torch.randint(0, 150, (3, 17), generator=torch.Generator().manual_seed(63))}
