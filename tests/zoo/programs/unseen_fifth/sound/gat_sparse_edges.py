"""GAT layer on an edge list with a scatter softmax per target node."""
import torch
import torch.nn as nn


def scatter_softmax(src, index, n):
    top = torch.full((n, src.size(1)), float("-inf")).scatter_reduce(
        0, index[:, None].expand_as(src), src, reduce="amax", include_self=True)
    e = (src - top[index]).exp()
    z = torch.zeros(n, src.size(1)).index_add_(0, index, e)
    return e / (z[index] + 1e-16)


class GATConv(nn.Module):
    def __init__(self, in_ch, out_ch, heads):
        super().__init__()
        self.heads, self.out_ch = heads, out_ch
        self.lin = nn.Linear(in_ch, heads * out_ch, bias=False)
        self.att_src = nn.Parameter(torch.randn(1, heads, out_ch) * 0.3)
        self.att_dst = nn.Parameter(torch.randn(1, heads, out_ch) * 0.3)
        self.bias = nn.Parameter(torch.zeros(heads * out_ch))

    def forward(self, x, edge_index):
        n = x.size(0)
        loops = torch.arange(n).repeat(2, 1)
        src, dst = torch.cat([edge_index, loops], 1)
        h = self.lin(x).view(n, self.heads, self.out_ch)
        a = (h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst]
        alpha = scatter_softmax(torch.nn.functional.leaky_relu(a, 0.2), dst, n)
        out = torch.zeros_like(h).index_add_(0, dst, h[src] * alpha.unsqueeze(-1))
        return out.flatten(1) + self.bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GATConv(7, 6, 4)
        self.conv2 = GATConv(24, 3, 1)

    def forward(self, x, edge_index):
        return self.conv2(torch.nn.functional.elu(self.conv1(x, edge_index)), edge_index).log_softmax(-1)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(10)
        return Net().eval()


def inputs():
    g = torch.Generator().manual_seed(11)
    return torch.randn(13, 7, generator=g), torch.randint(0, 13, (2, 30), generator=g)
