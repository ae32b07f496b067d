"""Graphormer layer: attention bias from shortest-path distances, one table entry a head."""
import torch
import torch.nn as nn


class GraphAttnBias(nn.Module):
    def __init__(self, num_heads, num_spatial):
        super().__init__()
        self.spatial_pos_encoder = nn.Embedding(num_spatial, num_heads)
        nn.init.normal_(self.spatial_pos_encoder.weight, std=0.5)

    def forward(self, spatial_pos):
        return self.spatial_pos_encoder(spatial_pos).permute(0, 3, 1, 2)


class GraphormerLayer(nn.Module):
    def __init__(self, num_heads=4, dim=32, num_spatial=12, **kwargs):
        super().__init__()
        self.nh = num_heads
        self.bias = GraphAttnBias(num_heads, num_spatial)
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.ln = nn.LayerNorm(dim)

    def forward(self, x, spatial_pos, node_mask):
        n_graph, n_node, c = x.shape
        q, k, v = self.in_proj(self.ln(x)).chunk(3, -1)
        q = q.view(n_graph, n_node, self.nh, -1).transpose(1, 2).reshape(n_graph * self.nh, n_node, -1)
        k = k.view(n_graph, n_node, self.nh, -1).transpose(1, 2).reshape(n_graph * self.nh, n_node, -1)
        v = v.view(n_graph, n_node, self.nh, -1).transpose(1, 2).reshape(n_graph * self.nh, n_node, -1)
        w = torch.bmm(q, k.transpose(1, 2)) / (c // self.nh) ** 0.5
        w = w + self.bias(spatial_pos).reshape(n_graph * self.nh, n_node, n_node)
        drop = ~node_mask[:, None, :].repeat(self.nh, 1, 1)  # fault: AS211
        w = w.masked_fill(drop, -1e9)  # fault: AS211
        y = torch.bmm(w.softmax(-1), v).view(n_graph, self.nh, n_node, -1).transpose(1, 2).reshape(n_graph, n_node, c)
        return x + self.out_proj(y)


# also: AS102 AS202
with torch.random.fork_rng():
    torch.manual_seed(4)
    model = GraphormerLayer().eval()
_g = torch.Generator().manual_seed(4)
_n = torch.tensor([10, 6, 8])
inputs = {
    "x": torch.randn(3, 10, 32, generator=_g),
    "spatial_pos": torch.randint(0, 12, (3, 10, 10), generator=_g),
    "node_mask": torch.arange(10)[None] < _n[:, None],
}
expect = {"padding": "node_mask keep"}
