"""Dense graph attention layer stack on molecules (adjacency as mask)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphLayer(nn.Module):
    def __init__(self, hidden, n_heads, **kwargs):
        super().__init__()
        self.n_heads = n_heads
        self.q = nn.Linear(hidden, hidden)
        self.k = nn.Linear(hidden, hidden)
        self.v = nn.Linear(hidden, hidden)
        self.lin_out = nn.Linear(hidden, hidden)

    def forward(self, h, adj):
        B, N, C = h.size()
        d = C // self.n_heads
        q = self.q(h).reshape(B, N, self.n_heads, d)
        k = self.k(h).reshape(B, N, self.n_heads, d)
        v = self.v(h).reshape(B, N, self.n_heads, d)
        e = torch.einsum("bihd,bjhd->bhij", q, k) * d ** -0.5
        alpha = F.softmax(e, dim=-1)
        alpha = alpha * adj.unsqueeze(1)  # fault: AS204
        out = torch.einsum("bhij,bjhd->bihd", alpha, v).reshape(B, N, C)
        return F.elu(h + self.lin_out(out))


class MolNet(nn.Module):
    def __init__(self, n_atom=12, hidden=28, n_heads=4):
        super().__init__()
        self.atom = nn.Embedding(n_atom, hidden)
        self.l1 = GraphLayer(hidden, n_heads)
        self.l2 = GraphLayer(hidden, n_heads)
        self.readout = nn.Linear(hidden, 1)

    def forward(self, atoms, adj):
        h = self.atom(atoms)
        h = self.l2(self.l1(h, adj), adj)
        return self.readout(h.mean(1)).squeeze(-1)


torch.manual_seed(33)
model = MolNet().eval()
_g = torch.Generator().manual_seed(5)
_a = (torch.rand(2, 9, 9, generator=_g) < 0.3).float()
_a = ((_a + _a.transpose(1, 2) + torch.eye(9)) > 0).float()
inputs = {"atoms": torch.randint(0, 12, (2, 9), generator=_g), "adj": _a}
# note: AS501
