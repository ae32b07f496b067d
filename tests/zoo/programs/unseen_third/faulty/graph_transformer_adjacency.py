"""Dense graph transformer layer: attention limited to bonded atoms, edge features as a bias."""
import torch
import torch.nn as nn


class GraphMHA(nn.Module):
    def __init__(self, hid, heads, edge_dim):
        super().__init__()
        self.H, self.d = heads, hid // heads
        self.Q = nn.Linear(hid, hid, bias=False)
        self.K = nn.Linear(hid, hid, bias=False)
        self.V = nn.Linear(hid, hid, bias=False)
        self.E = nn.Linear(edge_dim, heads)
        self.O = nn.Linear(hid, hid)

    def forward(self, h, e, adj):
        B, N, _ = h.shape
        q = self.Q(h).reshape(B, N, self.H, self.d).permute(0, 2, 1, 3)
        k = self.K(h).reshape(B, N, self.H, self.d).permute(0, 2, 1, 3)
        v = self.V(h).reshape(B, N, self.H, self.d).permute(0, 2, 1, 3)
        score = torch.einsum("bhid,bhjd->bhij", q, k) / self.d**0.5 + self.E(e).permute(0, 3, 1, 2)
        att = torch.softmax(score, -1)
        att = att * adj[:, None]  # fault: AS204
        out = torch.einsum("bhij,bhjd->bihd", att, v).flatten(2)
        return self.O(out)


class GTLayer(nn.Module):
    def __init__(self, hid=30, heads=3, edge_dim=4):
        super().__init__()
        self.att = GraphMHA(hid, heads, edge_dim)
        self.ln1, self.ln2 = nn.LayerNorm(hid), nn.LayerNorm(hid)
        self.mlp = nn.Sequential(nn.Linear(hid, 2 * hid), nn.ReLU(), nn.Linear(2 * hid, hid))

    def forward(self, h, e, adj):
        h = self.ln1(h + self.att(h, e, adj))
        return self.ln2(h + self.mlp(h))


def _graph(B=3, N=12, F=30):
    g = torch.Generator().manual_seed(31)
    adj = (torch.rand(B, N, N, generator=g) < 0.25).float()
    adj = ((adj + adj.transpose(1, 2) + torch.eye(N)) > 0).float()
    return {"h": torch.randn(B, N, F, generator=g), "e": torch.randn(B, N, N, 4, generator=g), "adj": adj}


with torch.random.fork_rng():
    torch.manual_seed(6)
    model = GTLayer().eval()
inputs = _graph()
