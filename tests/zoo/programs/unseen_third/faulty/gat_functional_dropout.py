"""Dense graph attention network for citation graphs (additive scores)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, dropout, alpha, concat=True):
        super().__init__()
        self.dropout, self.alpha, self.concat, self.out_features = dropout, alpha, concat, out_features
        self.W = nn.Parameter(torch.empty(in_features, out_features))
        nn.init.xavier_uniform_(self.W, gain=1.414)
        self.a = nn.Parameter(torch.empty(2 * out_features, 1))
        nn.init.xavier_uniform_(self.a, gain=1.414)

    def forward(self, h, adj):
        Wh = h @ self.W
        e = F.leaky_relu(Wh @ self.a[: self.out_features] + (Wh @ self.a[self.out_features :]).transpose(-1, -2), self.alpha)
        attention = torch.where(adj > 0, e, torch.full_like(e, -9e15))
        attention = F.softmax(attention, dim=-1)
        attention = F.dropout(attention, self.dropout)  # fault: AS701
        h_prime = attention @ Wh
        return F.elu(h_prime) if self.concat else h_prime


class GAT(nn.Module):
    def __init__(self, nfeat=11, nhid=8, nclass=4, dropout=0.3, alpha=0.2, nheads=3):
        super().__init__()
        self.attentions = [GraphAttentionLayer(nfeat, nhid, dropout, alpha) for _ in range(nheads)]
        for i, attention in enumerate(self.attentions):
            self.add_module("attention_{}".format(i), attention)
        self.out_att = GraphAttentionLayer(nhid * nheads, nclass, dropout, alpha, concat=False)

    def forward(self, x, adj):
        x = torch.cat([att(x, adj) for att in self.attentions], dim=-1)
        return F.log_softmax(self.out_att(x, adj), dim=-1)


# also: AS803
with torch.random.fork_rng():
    torch.manual_seed(94)
    model = GAT().eval()
_g = torch.Generator().manual_seed(94)
_a = torch.rand(2, 14, 14, generator=_g) < 0.3
inputs = (torch.randn(2, 14, 11, generator=_g), (_a | _a.mT | torch.eye(14, dtype=torch.bool)).float())
