"""Graph attention network on dense adjacency matrices with self-loops."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, n_heads, concat=True):
        super().__init__()
        self.n_heads, self.out_features, self.concat = n_heads, out_features, concat
        self.W = nn.Parameter(torch.empty(in_features, n_heads * out_features))
        self.a_src = nn.Parameter(torch.empty(n_heads, out_features))
        self.a_dst = nn.Parameter(torch.empty(n_heads, out_features))
        for p in (self.W, self.a_src, self.a_dst):
            nn.init.xavier_uniform_(p, gain=1.414)

    def forward(self, h, adj):
        b, n, _ = h.shape
        Wh = (h @ self.W).view(b, n, self.n_heads, self.out_features)
        src = (Wh * self.a_src).sum(-1).permute(0, 2, 1)
        dst = (Wh * self.a_dst).sum(-1).permute(0, 2, 1)
        e = F.leaky_relu(src.unsqueeze(3) + dst.unsqueeze(2), 0.2)
        zero_vec = -9e15 * torch.ones_like(e)
        attention = torch.where(adj.unsqueeze(1) > 0, e, zero_vec)
        attention = F.softmax(attention, dim=3)
        out = torch.einsum("bhij,bjhf->bihf", attention, Wh)
        return F.elu(out.flatten(2)) if self.concat else out.mean(2)


class GAT(nn.Module):
    def __init__(self, nfeat=14, nhid=8, nclass=5, nheads=3):
        super().__init__()
        self.layer1 = GraphAttentionLayer(nfeat, nhid, nheads)
        self.layer2 = GraphAttentionLayer(nhid * nheads, nclass, 2, concat=False)

    def forward(self, x, adj):
        return F.log_softmax(self.layer2(self.layer1(x, adj), adj), dim=-1)


def build():
    with torch.random.fork_rng():
        torch.manual_seed(80)
        return GAT().eval()


model = build()


def inputs():
    g = torch.Generator().manual_seed(81)
    edges = torch.rand(2, 11, 11, generator=g) < 0.25
    adj = (edges | edges.transpose(1, 2) | torch.eye(11, dtype=torch.bool)).float()
    return {"x": torch.randn(2, 11, 14, generator=g), "adj": adj}


# note: AS501
