"""Several protein chains packed in one row; chain_id tells them apart and distances restart with each chain."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChainAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dh = heads, dim // heads
        self.Wqkv = nn.Linear(dim, 3 * dim)
        self.Wo = nn.Linear(dim, dim)

    def forward(self, x, chain_id):
        B, L, D = x.shape
        q, k, v = self.Wqkv(x).reshape(B, L, 3, self.heads, self.dh).permute(2, 0, 3, 1, 4)
        same = chain_id[:, :, None] == chain_id[:, None, :]
        block = same
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=block[:, None])
        return self.Wo(o.transpose(1, 2).reshape(B, L, D))


class PackedEncoder(nn.Module):
    def __init__(self, vocab=25, dim=42, heads=6, depth=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.idx = nn.Embedding(40, dim)
        self.att = nn.ModuleList(ChainAttention(dim, heads) for _ in range(depth))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, residues, chain_id, residue_index):
        x = self.tok(residues) + self.idx(residue_index)
        for a, n in zip(self.att, self.ln):
            x = x + a(n(x), chain_id)
        return self.head(x)


with torch.random.fork_rng():
    torch.manual_seed(13)
    model = PackedEncoder().eval()


def inputs():
    chain = torch.tensor([[0] * 6 + [1] * 9 + [2] * 5, [0] * 11 + [1] * 4 + [2] * 5])
    idx = torch.cat([torch.cat([torch.arange(int((row == c).sum())) for c in range(3)])[None] for row in chain])
    return dict(residues=torch.randint(0, 25, (2, 20), generator=torch.Generator().manual_seed(3)), chain_id=chain, residue_index=idx)


expect = {"documents": "chain_id"}
