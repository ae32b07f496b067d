"""Graph attention over one graph: nodes are rows, an adjacency matrix says who sees whom."""
import torch
import torch.nn.functional as F
from torch import nn


class GraphAttentionLayer(nn.Module):
    def __init__(self, in_features, out_features, alpha=0.2):
        super().__init__()
        self.out_features = out_features
        self.W = nn.Parameter(torch.empty(in_features, out_features))
        self.a = nn.Parameter(torch.empty(2 * out_features, 1))
        nn.init.xavier_uniform_(self.W, gain=1.414)
        nn.init.xavier_uniform_(self.a, gain=1.414)
        self.leakyrelu = nn.LeakyReLU(alpha)

    def forward(self, h, adj):
        Wh = torch.mm(h, self.W)
        e = self.leakyrelu(Wh @ self.a[: self.out_features] + (Wh @ self.a[self.out_features :]).T)
        attention = torch.where(adj > 0, e, -9e15 * torch.ones_like(e))
        attention = F.softmax(attention, dim=1)  # note: AS101
        return F.elu(attention @ Wh)


def model():
    torch.manual_seed(22)
    return GraphAttentionLayer(10, 6).eval()


g = torch.Generator().manual_seed(23)
edges = (torch.rand(9, 9, generator=g) < 0.3) | torch.eye(9, dtype=torch.bool)
inputs = (torch.randn(9, 10, generator=g), edges.float())
