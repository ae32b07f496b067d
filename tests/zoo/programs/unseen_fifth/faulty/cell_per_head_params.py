"""Single-cell gene attention, every head with its own parameter slices."""
import torch
import torch.nn as nn


class GeneAttention(nn.Module):
    def __init__(self, d_gene, n_heads, d_head):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_head
        self.Wq = nn.Parameter(torch.zeros(n_heads, d_gene, d_head))
        self.Wk = nn.Parameter(torch.zeros(n_heads, d_gene, d_head))
        self.Wv = nn.Parameter(torch.zeros(n_heads, d_gene, d_head))
        self.Wo = nn.Parameter(torch.zeros(n_heads, d_head, d_gene))
        self.reset_parameters()

    def reset_parameters(self):
        for i in range(1, self.n_heads):  # fault: AS401|AS902
            for w in (self.Wq, self.Wk, self.Wv, self.Wo):
                nn.init.xavier_uniform_(w.data[i])

    def forward(self, g):
        out = 0.
        for i in range(self.n_heads):
            q, k, v = g @ self.Wq[i], g @ self.Wk[i], g @ self.Wv[i]
            a = torch.softmax(q @ k.mT / self.d_head ** 0.5, -1)
            out = out + a @ v @ self.Wo[i]
        return out


class CellModel(nn.Module):
    def __init__(self, n_genes=50, d=24, heads=4):
        super().__init__()
        self.gene = nn.Embedding(n_genes, d)
        self.expr = nn.Linear(1, d)
        self.attn = GeneAttention(d, heads, 8)
        self.norm = nn.LayerNorm(d)
        self.celltype = nn.Linear(d, 5)

    def forward(self, genes, counts):
        x = self.gene(genes) + self.expr(torch.log1p(counts)[..., None])
        x = x + self.attn(self.norm(x))
        return self.celltype(x.mean(1))


def model():
    with torch.random.fork_rng():
        torch.manual_seed(36)
        return CellModel().eval()


def inputs():
    gen = torch.Generator().manual_seed(37)
    return {"genes": torch.stack([torch.randperm(50, generator=gen)[:12] for _ in range(3)]),
            "counts": torch.randint(1, 40, (3, 12), generator=gen).float()}
