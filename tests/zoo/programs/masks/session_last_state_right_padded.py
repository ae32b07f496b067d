"""Next-item recommender: causal transformer over a session, scored from its last state."""

import torch
from torch import nn
import torch.nn.functional as F


class SessionRec(nn.Module):
    def __init__(self, n_items=70, dim=32, n_heads=2, n_layers=2, maxlen=30):
        super().__init__()
        self.item_emb = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, dim)
        self.n_heads = n_heads
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(n_layers))
        self.qkv = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(n_layers))
        self.proj = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n_layers))
        self.last_norm = nn.LayerNorm(dim)

    def forward(self, session):
        b, t = session.shape
        x = self.item_emb(session) + self.pos_emb(torch.arange(t))
        allowed = torch.ones(t, t, dtype=torch.bool).tril() & (session > 0)[:, None, None, :]
        for norm, qkv, proj in zip(self.norms, self.qkv, self.proj):
            q, k, v = (
                z.view(b, t, self.n_heads, -1).transpose(1, 2) for z in qkv(norm(x)).chunk(3, -1)
            )
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
            x = x + proj(y.transpose(1, 2).flatten(2))
        x = self.last_norm(x)
        final = x[:, -1]  # fault: AS202
        return final @ self.item_emb.weight[1:].T


with torch.random.fork_rng():
    torch.manual_seed(6)
    model = SessionRec().eval()


def inputs():
    s = torch.randint(1, 71, (4, 10), generator=torch.Generator().manual_seed(20))
    for row, n in enumerate((10, 4, 7, 5)):
        s[row, n:] = 0
    return {"session": s}


expect = {"padding": "session pad=0", "causal": True}
